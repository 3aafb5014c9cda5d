//! rpmalloc's object has its own pthread_create, which cargo cannot export; ours is linked first.

fn main() {
    println!("cargo:rustc-link-arg-cdylib=-Wl,--allow-multiple-definition");
}
