package commands

import (
	"cmp"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// maxInitialized is how many bytes the packages of the program may allocate before main.
// They need 517 KiB, so a new library is noticed.
const maxInitialized = 570 << 10

// pruned are packages with large maps that the linker leaves out of the program as long
// as nothing in it calls what reads them, and how many bytes each may allocate.
var pruned = map[string]int{
	"golang.org/x/net/html": 4 << 10, // its entities, for Text, Token, TagAttr and Parse
}

// TestWhatPackagesAllocate bounds what all packages allocate when the program starts,
// whatever the command. With -v it shows the packages that allocate most, and how long
// each took (docs/performance.md, "The binary").
func TestWhatPackagesAllocate(t *testing.T) {
	cmd := exec.Command(buildProgram(t, t.TempDir()), "--version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	type load struct {
		bytes int
		line  string
	}
	var loads []load
	total := 0
	for _, m := range regexp.MustCompile(`(?m)^init (\S+) .* (\d+) bytes, \d+ allocs$`).FindAllSubmatch(out, -1) {
		n, err := strconv.Atoi(string(m[2]))
		if err != nil {
			t.Fatal(err)
		}
		total += n
		if most, ok := pruned[string(m[1])]; ok && n > most {
			t.Errorf("the program calls what reads the maps of %s: %s", m[1], m[0])
		}
		loads = append(loads, load{n, string(m[0])})
	}
	if len(loads) < 50 {
		t.Fatalf("only %d packages are initialized:\n%s", len(loads), out)
	}
	slices.SortFunc(loads, func(a, b load) int { return cmp.Compare(b.bytes, a.bytes) })
	for _, l := range loads[:20] {
		t.Log(l.line)
	}
	t.Logf("%d bytes in all", total)
	if total > maxInitialized {
		t.Errorf("the packages allocate %d bytes at each start, and may have %d", total, maxInitialized)
	}
}
