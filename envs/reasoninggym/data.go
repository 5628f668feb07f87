package reasoninggym

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
)

//go:embed data/in_the_year_2889.txt.gz
var inTheYear2889 []byte

//go:embed data/words3to10.txt.gz
var words3to10 []byte

// text unpacks an embedded file.
func text(packed []byte) (string, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(z)
	return string(data), err
}
