// Kernels that a device must not have, for what follows (recovery.h).

// To where nothing is.
extern "C" __global__ void write_wrong(unsigned* out) {
  *reinterpret_cast<volatile unsigned*>(16) = *out;
}

extern "C" __global__ void never_end(unsigned* stop) {
  while (*static_cast<volatile unsigned*>(stop) == 0) {
  }
}
