package reasoninggym

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/grouper-rl/grouper/internal/python"
)

// Metadata that are not JSON, or not the same JSON as before, could not be read by a scorer or compared with a frozen bank.
func TestObject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type inner struct {
			Weights []Number `json:"weights"`
		}
		var want struct {
			N       int             `json:"n"`
			Big     json.RawMessage `json:"big"`
			OK      bool            `json:"ok"`
			Text    string          `json:"text"`
			Numbers []int           `json:"numbers"`
			Texts   []string        `json:"texts"`
			Inner   inner           `json:"inner"`
			Empty   struct{}        `json:"empty"`
		}
		texts := rapid.OneOf(rapid.String(), rapid.StringMatching("[ -~\x00-\x1f\x7f\u2027-\u202a]*"), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
		want.N = rapid.Int().Draw(t, "n")
		big := python.NewInt(want.N).Mul(python.NewInt(want.N))
		want.Big = json.RawMessage(big.String())
		want.OK = rapid.Bool().Draw(t, "ok")
		want.Text = texts.Draw(t, "text")
		want.Numbers = rapid.SliceOf(rapid.Int()).Draw(t, "numbers")
		want.Texts = rapid.SliceOf(texts).Draw(t, "texts")
		want.Inner.Weights = []Number{Real(rapid.Float64Range(-1e300, 1e300).Draw(t, "weight")), Integer(want.N % 1000)}

		var o, inside object
		o.int("n", want.N)
		o.bigInt("big", big)
		o.bool("ok", want.OK)
		o.string("text", want.Text)
		o.ints("numbers", want.Numbers...)
		o.strings("texts", want.Texts)
		inside.numbers("weights", want.Inner.Weights)
		o.object("inner", inside)
		o.object("empty", object{})
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(want); err != nil {
			t.Fatal(err)
		}
		if got := string(o.data) + "}\n"; got != b.String() {
			t.Fatalf("got %s, want %s", got, b.String())
		}
	})
}
