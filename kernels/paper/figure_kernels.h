// EDGE's event kernels in the form of its figures, one line each. All other
// kernels of the figures are in all_kernels.h.
#ifndef CARILLON_KERNELS_PAPER_FIGURE_KERNELS_H_
#define CARILLON_KERNELS_PAPER_FIGURE_KERNELS_H_

#include "kernels/paper/fig_ipsec.cuh"
#include "kernels/paper/fig_ipv4.cuh"
#include "kernels/paper/fig_ipv6.cuh"
#include "kernels/paper/fig_memc.cuh"
#include "kernels/paper/fig_vector_multiply.cuh"

#endif  // CARILLON_KERNELS_PAPER_FIGURE_KERNELS_H_
