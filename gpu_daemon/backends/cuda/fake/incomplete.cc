// A driver that has nothing but a version.
extern "C" int cuDriverGetVersion(int* version) {
  *version = 99000;
  return 0;
}
