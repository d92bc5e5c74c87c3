package commands

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle/files"
	"agentstateloop/internal/plain"
)

// printFiles prints the files of a message, one per line after label.
func printFiles(out *terminal.Output, label string, list []files.ReceivedFile) {
	for _, f := range list {
		switch {
		case f.Missing != "":
			out.Printf("%s%s is missing: %s\n", label, plain.Line(f.Name), plain.Line(f.Missing))
		case f.Path == nil:
			out.Printf("%s%s\n", label, f.Line())
		default:
			out.Printf("%s%s: %s\n", label, f.Line(), shownPath(*f.Path))
		}
	}
}

// shownPath returns a path as one line. It keeps a safe file name unchanged, because the name
// may contain joiners that belong to its spelling.
func shownPath(path string) string {
	if base := filepath.Base(path); base != "" {
		if kept, ok := plain.FileName(base); ok && kept == base {
			return filepath.Join(plain.Line(filepath.Dir(path)), base)
		}
	}
	return plain.Line(path)
}

// maxShownFiles limits the files that inbox show prints. JSON has all of them.
const maxShownFiles = 50

// printCame prints the rest of a message besides its text: its files, how to save those that are
// not in a file, and the problems of its structure.
func printCame(out *terminal.Output, which string, came files.Attachments) {
	printFiles(out, "file:    ", came.Files[:min(len(came.Files), maxShownFiles)])
	if more := len(came.Files) - maxShownFiles; more > 0 {
		out.Printf("         and %d more\n", more)
	}
	for _, f := range came.Files {
		if f.Path == nil && f.Missing == "" {
			out.Printf("         to save them: %s inbox show %s --save DIR\n", name, plain.Line(which))
			break
		}
	}
	if came.LeftOut != "" {
		out.Printf("left out: %s; the agent finds the whole text, as below, in full.txt\n", came.LeftOut)
	}
	for _, p := range came.Problems {
		out.Printf("problem: %s\n", plain.Line(p))
	}
}

// withInstead returns the text of a message, or a note for a mail without a text.
func withInstead(text string, came files.Attachments) string {
	switch {
	case came.Instead == "":
		return text
	case text == "":
		return came.Instead
	}
	return came.Instead + "\n\n" + text
}

// saveFiles saves the files of a message if the caller uses --save.
func saveFiles(c *cli.Context, which string, came *files.Attachments) error {
	if !c.IsSet("save") {
		return nil
	}
	dir := c.String("save")
	if dir == "" {
		return terminal.Usagef("", "--save needs a folder")
	}
	if len(came.Files) == 0 {
		return fmt.Errorf("%s came without files: there is nothing to save", plain.Line(which))
	}
	err := came.Save(dir)
	if errors.Is(err, files.ErrExists) {
		return terminal.WithHint(fmt.Errorf("nothing was saved: %w", err), "name another folder, or move that file")
	}
	if err != nil {
		return fmt.Errorf("save the files of %s: %w", plain.Line(which), err)
	}
	return nil
}
