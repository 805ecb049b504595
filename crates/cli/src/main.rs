//! The program `counterfoil`.

fn main() -> std::process::ExitCode {
    counterfoil_cli::main_with(std::env::args_os())
}
