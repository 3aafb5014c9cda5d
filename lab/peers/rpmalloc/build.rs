//! rpmalloc's object has a pthread_create of its own, which cargo cannot export; ours comes first.

fn main() {
    println!("cargo:rustc-link-arg-cdylib=-Wl,--allow-multiple-definition");
}
