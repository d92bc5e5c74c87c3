package page_test

import (
	"bytes"
	"flag"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

var update = flag.Bool("update", false, "make the pictures of the page in docs again")

// maxPicture limits the size of a picture in docs, in bytes.
const maxPicture = 150_000

// TestPictures makes the pictures in docs with -update, from the fixture. Otherwise it checks that
// they are there. Another Chromium draws other pixels, so it does not compare them.
func TestPictures(t *testing.T) {
	docs := filepath.Join("..", "..", "docs")
	pictures := []struct {
		file, scheme  string
		width, height int
	}{
		{"page-phone.png", "light", 390, 1180},
		{"page-phone-dark.png", "dark", 390, 1180},
		{"page-desktop.png", "light", 1120, 1000},
	}
	if *update {
		b := start(t)
		b.Call("Emulation.setScrollbarsHidden", map[string]any{"hidden": true}, nil)
		s := serveFixture(t, document(fixtureTime, fullAgent("scout", fixtureTime)))
		for _, p := range pictures {
			b.Scheme(p.scheme)
			b.Size(p.width, p.height, p.width < 500)
			b.Open(s.URL)
			b.Until("document.querySelector('.pulse')")
			b.Evaluate("document.querySelector('.pulse').style.animation = 'none'", nil)
			if err := os.WriteFile(filepath.Join(docs, p.file), reduced(t, b.View()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, p := range pictures {
		info, err := os.Stat(filepath.Join(docs, p.file))
		if err != nil {
			t.Errorf("%v: make it with go test ./commands/page -run TestPictures -update", err)
		} else if info.Size() > maxPicture {
			t.Errorf("%s has %d bytes, the limit is %d", p.file, info.Size(), maxPicture)
		}
	}
}

// reduced returns a PNG with its 256 most frequent colors.
func reduced(t *testing.T, data []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	counts := map[color.Color]int{}
	r := full.Bounds()
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			counts[full.At(x, y)]++
		}
	}
	var colors color.Palette
	for c := range counts {
		colors = append(colors, c)
	}
	slices.SortFunc(colors, func(a, b color.Color) int { return counts[b] - counts[a] })
	colors = colors[:min(256, len(colors))]
	small := image.NewPaletted(r, colors)
	nearest := map[color.Color]uint8{}
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			c := full.At(x, y)
			i, known := nearest[c]
			if !known {
				i = uint8(colors.Index(c))
				nearest[c] = i
			}
			small.SetColorIndex(x, y, i)
		}
	}
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&out, small); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
