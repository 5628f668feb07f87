package decoder_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/internal/golden"
	"github.com/grouper-rl/grouper/internal/safetensors"
	"github.com/grouper-rl/grouper/internal/testbackend"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/policy/decoder"
	"github.com/grouper-rl/grouper/policy/hf"
)

// tolerances are those of golden/models/README.md.
type tolerances struct {
	value       float64            // logits, hidden, log-probs, entropy, states
	loss        float64            // absolute
	gradient    float64            // relative to the parameter's largest gradient
	step, delta map[string]float64 // by optimizer: of parameters, and of the norm of their movement, relative to it
}

var withAttention = tolerances{1e-4, 1e-5, 5e-5,
	map[string]float64{"sgd1": 5e-6, "sgdm2": 2e-5, "adamw1": 2e-6, "adamw3": 3e-5},
	map[string]float64{"sgd1": 2e-4, "sgdm2": 2e-4, "adamw1": 3e-3, "adamw3": 3e-3},
}

// withDeltaNet are those of models with gated DeltaNet layers, which amplify rounding.
var withDeltaNet = tolerances{5e-4, 2e-5, 3e-4,
	map[string]float64{"sgd1": 3e-5, "sgdm2": 3e-4, "adamw1": 3e-6, "adamw3": 3e-5},
	map[string]float64{"sgd1": 1e-3, "sgdm2": 1e-3, "adamw1": 3e-3, "adamw3": 3e-3},
}

const (
	tolSum       = 1e-4 // of l2 and sum, relative to l2
	keptGradient = 1e-4 // entries with a larger share of the largest gradient are compared after Adam
	adamRate     = 1e-3
)

// goldenModel is one folder: the model, its weights in float32, and transformers' numbers.
type goldenModel struct {
	*hf.Model
	start   [][]float32       // weights in the order of Params
	weights []*tensors.Tensor // the same for the backend under test
	order   []string          // parameter names in the order of the golden arrays
	scalars map[string]float64
	ref     *safetensors.File
	tol     tolerances
}

// TestGolden compares with transformers. Where it fails, Grouper trains another model than the one that was loaded.
func TestGolden(t *testing.T) {
	paths := golden.Glob(t, "models/*/golden.json")
	last := map[string]string{} // folder of each model's name
	for _, path := range paths {
		last[filepath.Base(filepath.Dir(path))] = filepath.Dir(path)
	}
	for _, path := range paths {
		dir := filepath.Dir(path)
		m, err := loadGolden(t, dir)
		require.NoError(t, err, dir)
		t.Run(golden.Name(t, dir), func(t *testing.T) {
			testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
				if again := last[filepath.Base(dir)]; again != dir && b.Kind() != backend.Go {
					t.Skipf("%s has more of this model, and compiling takes long", golden.Name(t, again))
				}
				m := *m
				for i, p := range m.Params() { // a tensor stays with the backend that it met first
					m.weights = append(m.weights, tensors.FromFlatDataAndDimensions(m.start[i], p.Shape.Dimensions...))
				}
				defer backend.Free(m.weights...)
				t.Run("forward", func(t *testing.T) { m.forward(t, b) })
				t.Run("greedy", func(t *testing.T) { m.greedy(t, b) })
				t.Run("training", func(t *testing.T) { m.training(t, b) })
				t.Run("steps", func(t *testing.T) { m.steps(t, b) })
				t.Run("long", func(t *testing.T) { m.long(t, b) })
			})
		})
	}
	t.Logf("%d golden models", len(paths))
	require.NotEmpty(t, paths)
}

func loadGolden(t *testing.T, dir string) (*goldenModel, error) {
	model, w, err := hf.Load(t.Context(), os.DirFS(dir))
	if err != nil {
		return nil, err
	}
	defer w.Free()
	// The same model in the keys of transformers 4.
	if legacy, err := os.ReadFile(filepath.Join(dir, "config.legacy.json")); err == nil {
		old, ow, err := hf.Load(t.Context(), overlay{os.DirFS(dir), fstest.MapFS{"config.json": {Data: legacy}}})
		require.NoError(t, err, "config.legacy.json")
		ow.Free()
		require.Equal(t, model.Decoder.Config(), old.Decoder.Config(), "config.legacy.json")
	}
	m := &goldenModel{Model: model, tol: withAttention}
	if slices.ContainsFunc(model.Decoder.Config().PerLayer, func(l decoder.Layer) bool { return l.Recurrent }) {
		m.tol = withDeltaNet
	}
	for _, x := range w.Tensors {
		m.start = append(m.start, widen(t, x))
	}
	var about struct {
		Params  []string           `json:"params"`
		Scalars map[string]float64 `json:"scalars"`
	}
	raw, err := os.ReadFile(filepath.Join(dir, "golden.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &about))
	m.order, m.scalars = about.Params, about.Scalars
	ref, err := os.ReadFile(filepath.Join(dir, "golden.safetensors"))
	require.NoError(t, err)
	m.ref, err = safetensors.Open(bytes.NewReader(ref), int64(len(ref)))
	require.NoError(t, err)
	require.Len(t, model.Params(), len(m.order))
	return m, nil
}

// overlay looks in top first.
type overlay struct{ below, top fs.FS }

func (o overlay) Open(name string) (fs.File, error) {
	if f, err := o.top.Open(name); err == nil {
		return f, nil
	}
	return o.below.Open(name)
}

func widen(t *testing.T, x *tensors.Tensor) []float32 {
	if x.DType() == dtypes.Float32 {
		return values(t, x)
	}
	half, err := tensors.CopyFlatData[bfloat16.BFloat16](x)
	require.NoError(t, err)
	wide := make([]float32, len(half))
	for i, h := range half {
		wide[i] = h.Float32()
	}
	return wide
}

// array is a reference tensor as float64; nil if the file lacks it.
type array struct {
	dims []int
	v    []float64
}

func (m *goldenModel) get(t *testing.T, name string) *array {
	t.Helper()
	x, ok := m.ref.Tensor(name)
	if !ok {
		return nil
	}
	raw := make([]byte, x.Size())
	require.NoError(t, x.ReadInto(raw))
	a := &array{dims: x.Shape}
	n := int(x.Size() / x.DType.Size())
	for i := range n {
		switch x.DType {
		case "F32":
			a.v = append(a.v, float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))))
		case "F64":
			a.v = append(a.v, math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:])))
		case "I64":
			a.v = append(a.v, float64(int64(binary.LittleEndian.Uint64(raw[8*i:]))))
		default:
			t.Fatalf("%s has dtype %s", name, x.DType)
		}
	}
	return a
}

// rows gives a [B,T] array as int32 tokens.
func (a *array) rows() [][]int32 {
	out := make([][]int32, a.dims[0])
	for i, v := range a.v {
		out[i/a.dims[1]] = append(out[i/a.dims[1]], int32(v))
	}
	return out
}

// lengths counts the ones of each row of a mask.
func (a *array) lengths() []int {
	out := make([]int, a.dims[0])
	for i, v := range a.v {
		out[i/a.dims[1]] += int(v)
	}
	return out
}

// logSoftmax of logits at a temperature, in float64.
func logSoftmax(logits []float32, temperature float64) []float64 {
	top, sum := math.Inf(-1), 0.0
	for _, x := range logits {
		top = max(top, float64(x)/temperature)
	}
	for _, x := range logits {
		sum += math.Exp(float64(x)/temperature - top)
	}
	out := make([]float64, len(logits))
	for i, x := range logits {
		out[i] = float64(x)/temperature - top - math.Log(sum)
	}
	return out
}

func (m *goldenModel) forward(t *testing.T, b *backend.Backend) {
	ids, left := m.get(t, "right.input_ids").rows(), m.get(t, "left.input_ids").rows()
	lengths := m.get(t, "right.attention_mask").lengths()
	width, vocab := len(ids[0]), m.VocabSize()
	pads := make([]int32, len(ids))
	for i, n := range lengths {
		pads[i] = int32(width - n)
	}
	n := len(m.weights)
	g := m.groups(t)
	out := call(t, b, func(in []*graph.Node) []*graph.Node {
		w := policy.Vars(in[:n])
		logits := func(h *graph.Node) *graph.Node { return m.Logits(w, graph.Reshape(h, -1, m.Decoder.Config().Hidden)) }
		states := decoder.States(m.Decoder, w, policy.Inputs{Tokens: in[n]})
		padded := m.Hidden(w, policy.Inputs{Tokens: in[n+1], Pad: in[n+2]})
		shared := m.HiddenGroups(w, policy.Groups{Prompts: policy.Inputs{Tokens: in[n+3], Pad: in[n+4]}, Completions: in[n+5]})
		return append([]*graph.Node{logits(states[len(states)-1]), logits(padded), logits(shared)}, states...)
	}, m.weights, ids, left, pads, g.prompts, g.pads, g.completions)
	defer backend.Free(out...)
	right, padded, shared := values(t, out[0]), values(t, out[1]), values(t, out[2])
	out = out[3:]

	// Where a compact copy leaves left.logits out, they are those of the right-padded batch.
	goldRight, goldLeft := m.get(t, "right.logits"), m.get(t, "left.logits")
	for i, length := range lengths {
		for j := range length {
			for v := range vocab {
				want := goldRight.v[(i*width+j)*vocab+v]
				near(t, float64(right[(i*width+j)*vocab+v]), want, m.tol.value, "logits, right", i, j, v)
				at := i*width + j + int(pads[i])
				if goldLeft != nil {
					want = goldLeft.v[at*vocab+v]
				}
				near(t, float64(padded[at*vocab+v]), want, m.tol.value, "logits, left", i, j, v)
			}
		}
		states := len(g.completions[0]) + 1 // of a completion: the prompt's last token, then its own
		for row := i * sharing; row < (i+1)*sharing; row++ {
			for j := g.lengths[i] - 1; j < length; j++ {
				for v := range vocab {
					at := row*states + j - (g.lengths[i] - 1)
					near(t, float64(shared[at*vocab+v]), goldRight.v[(i*width+j)*vocab+v], m.tol.value, "logits, shared prompt", row, j, v)
				}
			}
		}
		for j := 1; j < length; j++ {
			at := i*width + j
			logits := right[(at-1)*vocab : at*vocab]
			for name, temperature := range map[string]float64{"right.logprobs_t1.0": 1, "right.logprobs_t0.7": 0.7} {
				if gold := m.get(t, name); gold != nil {
					near(t, logSoftmax(logits, temperature)[ids[i][j]], gold.v[at], m.tol.value, name, i, j)
				}
			}
			if gold := m.get(t, "right.entropy_t1.0"); gold != nil {
				entropy := 0.0
				for _, lp := range logSoftmax(logits, 1) {
					entropy -= math.Exp(lp) * lp
				}
				near(t, entropy, gold.v[at], m.tol.value, "entropy", i, j)
			}
		}
	}
	if gold := m.get(t, "row0.hidden"); gold != nil {
		require.Len(t, out, gold.dims[0], "layers")
		per := gold.dims[1] * gold.dims[2]
		for layer, state := range out {
			for i, x := range values(t, state)[:per] { // row 0 begins the batch
				near(t, float64(x), gold.v[layer*per+i], m.tol.value, "hidden", layer, i)
			}
		}
	}
}

// sharing is how many completions have one prompt in groups.
const sharing = 2

// groupsOf is the rows as groups, each of the same completion several times: prompts padded on the left, completions on the right.
type groupsOf struct {
	prompts, completions [][]int32
	pads                 []int32
	lengths              []int // of the prompts
}

func (m *goldenModel) groups(t *testing.T) (g groupsOf) {
	ids, lengths := m.get(t, "right.input_ids").rows(), m.get(t, "right.attention_mask").lengths()
	for i, n := range lengths {
		g.lengths = append(g.lengths, n/2)
		if gold := m.get(t, "greedy.prompt_lengths"); gold != nil {
			g.lengths[i] = int(gold.v[i])
		}
	}
	width, longest := slices.Max(g.lengths), 0
	for i, n := range g.lengths {
		longest = max(longest, lengths[i]-n)
	}
	for i, n := range g.lengths {
		g.pads = append(g.pads, int32(width-n))
		g.prompts = append(g.prompts, append(make([]int32, width-n), ids[i][:n]...))
		completion := make([]int32, longest)
		copy(completion, ids[i][n:lengths[i]])
		for range sharing {
			g.completions = append(g.completions, completion)
		}
	}
	return g
}

// greedy decodes all prompts at once, padded on the left, and then each alone.
func (m *goldenModel) greedy(t *testing.T, b *backend.Backend) {
	gold := m.get(t, "greedy.tokens")
	if gold == nil {
		t.Skip("no greedy continuation")
	}
	want, logprobs := gold.rows(), m.get(t, "greedy.logprobs").v
	ids := m.get(t, "right.input_ids").rows()
	var prompts [][]int32
	for i, n := range m.get(t, "greedy.prompt_lengths").v {
		prompts = append(prompts, ids[i][:int(n)])
	}
	n := len(m.weights)
	extend, err := backend.Compile(b, "greedy", func(in []*graph.Node) []*graph.Node {
		w := policy.Vars(in[:n])
		h, next := m.Extend(w, in[n+3:], policy.Inputs{Tokens: in[n], Pad: in[n+1], Start: in[n+2]})
		h = graph.Slice(h, graph.AxisRange(), graph.AxisElem(-1))
		return append([]*graph.Node{m.Logits(w, graph.Reshape(h, -1, h.Shape().Dim(2)))}, next...)
	})
	require.NoError(t, err)
	defer extend.Close()
	decode := func(prompts [][]int32, want [][]int32, logprobs []float64) {
		width := 0
		for _, p := range prompts {
			width = max(width, len(p))
		}
		tokens, pads := make([][]int32, len(prompts)), make([]int32, len(prompts))
		for i, p := range prompts {
			pads[i] = int32(width - len(p))
			tokens[i] = append(make([]int32, pads[i]), p...)
		}
		var cache []*tensors.Tensor
		for _, s := range m.Cache(len(prompts), width+len(want[0]), dtypes.Float32) {
			cache = append(cache, tensors.FromShape(s))
		}
		slot := 0
		for step := range want[0] {
			out, err := extend.Call(0, m.weights, tokens, pads, int32(slot), backend.Donate(cache))
			require.NoError(t, err)
			slot += len(tokens[0])
			cache = out[1:]
			logits := values(t, out[0])
			for i := range prompts {
				lp := logSoftmax(logits[i*m.VocabSize():(i+1)*m.VocabSize()], 1)
				best := 0
				for v := range lp {
					if lp[v] > lp[best] {
						best = v
					}
				}
				require.EqualValues(t, want[i][step], best, "row %d, token %d", i, step)
				require.InDelta(t, logprobs[i*len(want[0])+step], lp[best], m.tol.value, "row %d, token %d", i, step)
				tokens[i] = []int32{int32(best)}
			}
		}
		backend.Free(cache...)
	}
	decode(prompts, want, logprobs)
	if b.Kind() == backend.Go { // every length would be compiled anew by XLA
		for i := range prompts {
			decode(prompts[i:i+1], want[i:i+1], logprobs[i*len(want[0]):])
		}
	}
}
