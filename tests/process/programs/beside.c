/* A library that only the RUNPATH of libopener.so leads to. */
int beside(void);
int beside(void) { return 42; }
