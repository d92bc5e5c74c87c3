package main

import (
	"fmt"
	"math/big"
	"os"
	"strings"
)

// listName is the file next to this one that lists the breaks. The breaks of fleetList are caught
// by the simulator with hosts.
const (
	listName  = "breaks.txt"
	fleetList = "fleet.txt"
)

// mutant is one deliberate break: whole lines of a file that are replaced.
type mutant struct {
	name, what string
	file       string // from the root of the module
	test       string // arguments of go test
	old, new   string // each line ends with a newline
}

// readBreaks reads a list of breaks. A break looks like this, and an empty line ends it:
//
//	epoch-not-raised: a reap does not raise the epoch
//	file: state/turn.go
//	test: ./state -run Transcripts
//	-	m.Turn.Epoch++
//	+	m.Turn.Epoch += 0
//
// As in a diff, a line with - is replaced by those with +, and a line that begins with
// a space stays. The lines that are there before the break must occur once in the file.
// A line with # begins a part of the list.
func readBreaks(path string) ([]mutant, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var breaks []mutant
	open := false
	for line := range strings.Lines(string(data)) {
		text := strings.TrimSuffix(line, "\n")
		if text == "" || text[0] == '#' {
			open = false
			continue
		}
		key, value, _ := strings.Cut(text, ": ")
		if !open {
			breaks = append(breaks, mutant{name: key, what: value})
			open = true
			continue
		}
		b := &breaks[len(breaks)-1]
		switch {
		case text[0] == '-':
			b.old += line[1:]
		case text[0] == '+':
			b.new += line[1:]
		case text[0] == ' ':
			b.old += line[1:]
			b.new += line[1:]
		case key == "file":
			b.file = value
		case key == "test":
			b.test = value
		default:
			return nil, fmt.Errorf("%s: %s: unknown line %q", path, b.name, text)
		}
	}
	return breaks, nil
}

// third returns every third break, and begins where the hash of a commit says, a number
// in hexadecimal: with the first break, the second or the third. Three hashes in a row
// of one length, such as 0, 1 and 2, choose each break once.
func third(breaks []mutant, hash string) ([]mutant, error) {
	number, ok := new(big.Int).SetString(hash, 16)
	if !ok || number.Sign() < 0 {
		return nil, fmt.Errorf("-third %q: expected the hash of a commit", hash)
	}
	begin := int(new(big.Int).Mod(number, big.NewInt(3)).Int64())
	var chosen []mutant
	for i := begin; i < len(breaks); i += 3 {
		chosen = append(chosen, breaks[i])
	}
	return chosen, nil
}

// apply returns the broken text of the file. The old lines must occur in it once.
func (b mutant) apply(whole string) (string, error) {
	lines := "\n" + whole
	if n := strings.Count(lines, "\n"+b.old); n != 1 || b.old == "" {
		return "", fmt.Errorf("the old lines occur %d times in %s", n, b.file)
	}
	return strings.Replace(lines, "\n"+b.old, "\n"+b.new, 1)[1:], nil
}

// splitTest returns the test command without its -run, and the value of -run.
func (b mutant) splitTest() (command, pattern string) {
	var rest []string
	fields := strings.Fields(b.test)
	for i := 0; i < len(fields); i++ {
		if fields[i] == "-run" && i+1 < len(fields) {
			i++
			pattern = fields[i]
			continue
		}
		rest = append(rest, fields[i])
	}
	return strings.Join(rest, " "), pattern
}
