package hf

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"
)

// A NaN that is overlooked at one place of a block spoils a whole run; the largest numbers must not be taken for one.
func TestFinite(t *testing.T) {
	for _, dtype := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16} {
		size := dtype.Size()
		put := func(data []byte, i int, bits uint32) {
			if size == 2 {
				binary.LittleEndian.PutUint16(data[2*i:], uint16(bits>>16))
			} else {
				binary.LittleEndian.PutUint32(data[4*i:], bits)
			}
		}
		for _, n := range []int{0, 1, 15, 16, 31, 32, 33, 100} {
			data := make([]byte, n*size)
			for i := range n { // all but a few have all bits set that a finite number may have
				put(data, i, []uint32{0x7f7fffff, 0xff7fffff, 0x807fffff, 1<<31 | 1, 0}[i%5])
			}
			require.Equal(t, -1, finite(data, dtype), "%s, %d elements", dtype, n)
			for i := range n {
				for _, bits := range []uint32{math.Float32bits(float32(math.NaN())), 0x7f800000, 0xff800000, 0xffffffff} {
					spoiled := append([]byte{}, data...)
					put(spoiled, n-1, bits) // a later one does not hide it
					put(spoiled, i, bits)
					require.Equal(t, i, finite(spoiled, dtype), fmt.Sprintf("%s, %d elements, %x", dtype, n, bits))
				}
			}
		}
	}
}
