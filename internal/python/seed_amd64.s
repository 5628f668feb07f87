//go:build !purego

#include "textflag.h"

// The 32 chains are in Y0 to Y3, eight in each.

// MIX is x = (x ^ x>>30) * factor for all chains.
#define MIX(factor) \
	VPSRLD $30, Y0, Y4 \
	VPSRLD $30, Y1, Y5 \
	VPSRLD $30, Y2, Y6 \
	VPSRLD $30, Y3, Y7 \
	VPXOR  Y4, Y0, Y0 \
	VPXOR  Y5, Y1, Y1 \
	VPXOR  Y6, Y2, Y2 \
	VPXOR  Y7, Y3, Y3 \
	VPMULLD factor, Y0, Y0 \
	VPMULLD factor, Y1, Y1 \
	VPMULLD factor, Y2, Y2 \
	VPMULLD factor, Y3, Y3

#define LOAD(from, a, b, c, d) \
	VMOVDQU 0(from), a \
	VMOVDQU 32(from), b \
	VMOVDQU 64(from), c \
	VMOVDQU 96(from), d

#define STORE(to) \
	VMOVDQU Y0, 0(to) \
	VMOVDQU Y1, 32(to) \
	VMOVDQU Y2, 64(to) \
	VMOVDQU Y3, 96(to)

#define BROADCAST(constant, to, half) \
	MOVL $constant, AX \
	VMOVD AX, half \
	VPBROADCASTD half, to

// func mixSeedsAVX2(w *laneWords, last, seeds *[lanes]uint32, start *[stateSize]uint32)
TEXT ·mixSeedsAVX2(SB), NOSPLIT, $0-32
	MOVQ w+0(FP), DI
	MOVQ last+8(FP), SI
	MOVQ seeds+16(FP), DX
	MOVQ start+24(FP), BX
	LOAD(SI, Y0, Y1, Y2, Y3)
	LOAD(DX, Y8, Y9, Y10, Y11)
	BROADCAST(1664525, Y12, X12)
	MOVQ $1, CX // number of the word

seeds:
	ADDQ $128, DI
	MIX(Y12)
	VPBROADCASTD (BX)(CX*4), Y13
	VPXOR  Y13, Y0, Y0
	VPXOR  Y13, Y1, Y1
	VPXOR  Y13, Y2, Y2
	VPXOR  Y13, Y3, Y3
	VPADDD Y8, Y0, Y0
	VPADDD Y9, Y1, Y1
	VPADDD Y10, Y2, Y2
	VPADDD Y11, Y3, Y3
	STORE(DI)
	INCQ CX
	CMPQ CX, $624
	JLT  seeds

	STORE(SI)
	VZEROUPPER
	RET

// func mixAgainAVX2(w *laneWords, last *[lanes]uint32)
TEXT ·mixAgainAVX2(SB), NOSPLIT, $0-16
	MOVQ w+0(FP), DI
	MOVQ last+8(FP), SI
	LOAD(SI, Y0, Y1, Y2, Y3)
	BROADCAST(1566083941, Y12, X12)
	BROADCAST(1, Y13, X13) // number of the word
	VMOVDQA Y13, Y14
	ADDQ $128, DI
	MOVQ $622, CX // words to go

again:
	ADDQ $128, DI
	VPADDD Y14, Y13, Y13
	MIX(Y12)
	VPXOR  0(DI), Y0, Y0
	VPXOR  32(DI), Y1, Y1
	VPXOR  64(DI), Y2, Y2
	VPXOR  96(DI), Y3, Y3
	VPSUBD Y13, Y0, Y0
	VPSUBD Y13, Y1, Y1
	VPSUBD Y13, Y2, Y2
	VPSUBD Y13, Y3, Y3
	STORE(DI)
	DECQ CX
	JNZ  again

	STORE(SI)
	VZEROUPPER
	RET
