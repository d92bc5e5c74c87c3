package markdown_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentstateloop/internal/testkit/browser"
	"agentstateloop/mail/markdown"
)

var screenshots = flag.String("screenshots", "", "a folder for pictures of the pages as a phone shows them")

// measure reports whether a page is wider than the phone, and lists each text whose size or
// contrast is too low.
const measure = `(() => {
	const bad = [];
	const page = document.documentElement;
	if (page.scrollWidth > innerWidth) bad.push("the page is " + page.scrollWidth + " pixels wide");
	const scrolls = e => e && (getComputedStyle(e).overflowX == "auto" || scrolls(e.parentElement));
	const light = c => { const [r, g, b] = c.match(/[\d.]+/g).map(Number); return (0.2126*r + 0.7152*g + 0.0722*b) / 255; };
	const dark = matchMedia("(prefers-color-scheme: dark)").matches;
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let n; n = walker.nextNode(); ) {
		if (!n.data.trim()) continue;
		const style = getComputedStyle(n.parentElement), range = document.createRange();
		range.selectNodeContents(n);
		const what = n.data.trim().slice(0, 30);
		if (parseFloat(style.fontSize) < 14) bad.push(style.fontSize + ": " + what);
		for (const box of range.getClientRects())
			if (!scrolls(n.parentElement) && (box.right > innerWidth || box.left < 0)) bad.push("out of sight: " + what);
		const l = light(style.color);
		if (n.parentElement.closest("a") == null && (dark ? l < 0.7 : l > 0.3)) bad.push(style.color + ": " + what);
	}
	return bad;
})()`

// TestPageOnPhone renders pages in Chromium at the width of a small phone, in the light and the
// dark mode.
func TestPageOnPhone(t *testing.T) {
	b := browser.Start(t)
	files, err := filepath.Glob("testdata/*.md")
	if err != nil || len(files) == 0 {
		t.Fatal("no pages", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		page, ok := markdown.HTML(string(text))
		if !ok {
			t.Errorf("%s has no HTML", file)
			continue
		}
		for _, scheme := range []string{"light", "dark"} {
			name := fmt.Sprintf("%s-%s", strings.TrimSuffix(filepath.Base(file), ".md"), scheme)
			b.Scheme(scheme)
			at := b.Show(page)
			for _, fetched := range b.Fetched {
				if fetched != at {
					t.Errorf("%s fetches %s", name, fetched)
				}
			}
			var bad []string
			if b.Evaluate(measure, &bad); len(bad) > 0 {
				t.Errorf("%s: %q", name, bad)
			}
			var scripts int
			if b.Evaluate("document.scripts.length + document.images.length + document.querySelectorAll('link,iframe,form,input,video,audio,object,svg').length", &scripts); scripts != 0 {
				t.Errorf("%s: %d forbidden elements", name, scripts)
			}
			if *screenshots == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(*screenshots, name+".png"), b.Picture(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
