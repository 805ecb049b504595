//! The program `counterfoil-log`.

fn main() -> std::process::ExitCode {
    counterfoil_log_server::main_with(std::env::args_os())
}
