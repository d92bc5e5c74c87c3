package plain

import (
	"fmt"
	"strings"
)

// Size returns a number of bytes in words: "1 byte", "12 KiB", "1.5 MiB".
func Size(n int64) string {
	if n == 1 {
		return "1 byte"
	}
	if n < 1<<10 {
		return fmt.Sprintf("%d bytes", n)
	}
	size, units := float64(n)/(1<<10), []string{"KiB", "MiB", "GiB"}
	for size >= 1023.5 && len(units) > 1 {
		size, units = size/(1<<10), units[1:]
	}
	if size < 9.95 {
		return strings.TrimSuffix(fmt.Sprintf("%.1f", size), ".0") + " " + units[0]
	}
	return fmt.Sprintf("%.0f %s", size, units[0])
}

// Name returns the foreign name of a file as one line for use in a sentence. A safe file name
// (see FileName) without commas and round brackets stays as it is. Any other name is quoted and
// cut to 120 characters.
func Name(name string) string {
	if kept, ok := FileName(name); ok && !strings.ContainsAny(kept, ",()") {
		return kept
	}
	return `"` + strings.ReplaceAll(Shorten(Line(name), 120), `"`, `\"`) + `"`
}
