#include <cstdio>
#include "sim/exec/functional.h"
#include "sim/lower/lower.h"
using namespace carillon::sim;
int main(int argc,char**argv){
  for(int i=1;i<argc;i++){
    Memory memory;
    auto m=ptx::ParseModuleFile(argv[i]);
    if(!m.ok()){ printf("%s\n", std::string(m.status().message()).c_str()); continue; }
    auto p=Lower(std::make_shared<const ptx::Module>(*std::move(m)),&memory);
    if(!p.ok()){ printf("%s\n", std::string(p.status().message()).c_str()); continue; }
    int n=0,r=0;
    for(auto&f:(*p)->functions){ ++n; if(!f.refused.empty()){ ++r; printf("%s: %s\n", std::string(f.name).c_str(), f.refused.c_str()); } }
    printf("== %s: %d functions, %d refused\n", argv[i], n, r);
  }
}
