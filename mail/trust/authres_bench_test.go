package trust

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkLongResults parses Authentication-Results of 60 and 240 KB. With linear time the second
// takes four times as long.
func BenchmarkLongResults(b *testing.B) {
	for name, part := range map[string]string{
		"a name": ".a", "properties": " a=b", "results": "; a=b", "a value": "=a", "comments": "(a)", "open comments": "(",
	} {
		for _, n := range []int{60_000, 240_000} {
			value := "mx.example.org; dmarc=pass x" + strings.Repeat(part, n/len(part)) + "=b"
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				for b.Loop() {
					authResults(value)
				}
			})
		}
	}
}
