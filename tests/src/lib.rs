//! Nothing but a home for the end-to-end tests (`tests/`), which run the program in `src/bin` as processes of their own.
