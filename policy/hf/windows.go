package hf

import (
	"fmt"

	"github.com/grouper-rl/grouper/policy/decoder"
)

// Layer types in transformers' words.
const (
	fullAttention    = "full_attention"
	slidingAttention = "sliding_attention"
	linearAttention  = "linear_attention"
)

// windows gives the layers of type sliding_attention a window.
func (k *keys) windows(d *decoder.Config, types []string, window int) {
	for i, t := range types {
		if t != slidingAttention {
			continue
		}
		if window < 1 {
			k.fail(fmt.Errorf("layer_types[%d] is %q, but sliding_window is missing, below 1 or switched off", i, t))
			return
		}
		if d.PerLayer == nil {
			d.PerLayer = make([]decoder.Layer, d.Layers)
		}
		d.PerLayer[i].Window = window
	}
}

// upperWindows reads the sliding windows of Qwen 2 and 3: layers from max_window_layers on, if use_sliding_window is true.
func (k *keys) upperWindows(d *decoder.Config) {
	window := 0
	if or(k, "use_sliding_window", false) {
		window = or(k, "sliding_window", 0)
	}
	from := or(k, "max_window_layers", 0)
	k.windows(d, k.layerTypes(d.Layers, func(i int) string {
		if window > 0 && i >= from {
			return slidingAttention
		}
		return fullAttention
	}, fullAttention, slidingAttention), window)
}

// everyWindow reads a window of all layers.
func (k *keys) everyWindow(d *decoder.Config) {
	window, ok := get[int](k, "sliding_window")
	if !ok {
		k.sameLayers(d.Layers, fullAttention)
		return
	}
	if window < 1 {
		k.fail(fmt.Errorf("sliding_window is %d, allowed: 1 or more, or null", window))
	}
	k.sameLayers(d.Layers, slidingAttention)
	if k.err != nil || d.Layers < 0 || d.Layers > decoder.MaxLayers { // the decoder's Validate says what is wrong with Layers
		return
	}
	d.PerLayer = make([]decoder.Layer, d.Layers)
	for i := range d.PerLayer {
		d.PerLayer[i].Window = window
	}
}

// writeWindows writes the layers' types and the window of those that have one.
func writeWindows(d decoder.Config, c map[string]any) {
	c["use_sliding_window"], c["sliding_window"] = false, nil
	types := make([]string, d.Layers)
	for i := range types {
		types[i] = fullAttention
		if len(d.PerLayer) > 0 && d.PerLayer[i].Window > 0 {
			types[i] = slidingAttention
			c["use_sliding_window"], c["sliding_window"] = true, d.PerLayer[i].Window
		}
	}
	c["layer_types"] = types
}

// writeEveryWindow writes the first layer's window as that of all.
func writeEveryWindow(d decoder.Config, c map[string]any) {
	c["sliding_window"] = nil
	if len(d.PerLayer) > 0 && d.PerLayer[0].Window > 0 {
		c["sliding_window"] = d.PerLayer[0].Window
	}
}
