package react

import (
	"errors"
	"strings"
)

// ConfinedCommand is the hidden subcommand of our own binary that calls
// Confine.
const ConfinedCommand = "__confined"

// Confined lists what a program may see of the file system besides the folders of the
// system. It may write below the folders of Write, and read and execute below those
// of Read.
type Confined struct {
	Write, Read []string
}

// The arguments of ConfinedCommand are folders, each after a mark, then endMark,
// then the program and its arguments.
const (
	writeMark = "w:"
	readMark  = "r:"
	endMark   = "--"
)

func (c Confined) args() []string {
	var args []string
	for _, dir := range c.Write {
		args = append(args, writeMark+dir)
	}
	for _, dir := range c.Read {
		args = append(args, readMark+dir)
	}
	return append(args, endMark)
}

// parseConfined reads the arguments that args returns, and the command line after
// them.
func parseConfined(args []string) (c Confined, argv []string, err error) {
	for i, arg := range args {
		switch {
		case arg == endMark && i+1 < len(args):
			return c, args[i+1:], nil
		case strings.HasPrefix(arg, writeMark):
			c.Write = append(c.Write, arg[len(writeMark):])
		case strings.HasPrefix(arg, readMark):
			c.Read = append(c.Read, arg[len(readMark):])
		default:
			return c, nil, errConfined
		}
	}
	return c, nil, errConfined
}

var errConfined = errors.New(ConfinedCommand + " is for agentstateloop's own use")
