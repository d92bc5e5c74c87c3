package powerloss

import (
	"maps"
	"math/rand/v2"
)

// loss is a way to lose power: what becomes of what is not durable.
type loss int

const (
	loseAll     loss = iota // all of it is gone
	keepAll                 // nothing is gone, as if the processes had been killed
	keepNames               // all names are there, and no content
	keepZeros               // all names and lengths are there, and zeros for content
	keepNewest              // of the names the newest change is there, and all content
	keepBare                // of the names the newest change is there, and no content
	keepOld                 // of the names all but the newest change, and all content
	keepContent             // all content is there, and no name
	journalled              // names up to some change, and some content
	reordered               // any names, and some content
	losses      int  = iota // how many ways there are
)

func (l loss) String() string {
	return []string{"all unsynced lost", "nothing lost", "names without content", "names with zeros", "only the newest name", "the newest name without content", "all but the newest name",
		"content without names", "names in order", "names out of order"}[l]
}

// after returns a tree that a power loss may leave.
func (d *disk) after(l loss, chance *rand.Rand) tree {
	names, chosen := maps.Clone(d.durable), map[*change]bool{}
	upTo := 0
	if l == journalled {
		upTo = chance.IntN(len(d.pending) + 1)
	}
	for i, c := range d.pending {
		last := i == len(d.pending)-1
		switch l {
		case keepAll, keepNames, keepZeros:
			chosen[c] = true
		case keepNewest, keepBare:
			chosen[c] = last
		case keepOld:
			chosen[c] = !last
		case journalled:
			chosen[c] = i < upTo
		case reordered:
			chosen[c] = chance.IntN(2) == 0
		}
	}
	d.keep(names, chosen)
	contents := map[*node][]byte{} // a file may have two names
	return d.tree(names, func(n *node) []byte {
		if _, ok := contents[n]; !ok {
			contents[n] = n.after(l, chance)
		}
		return contents[n]
	})
}

// after returns the content that a power loss may leave.
func (n *node) after(l loss, chance *rand.Rand) []byte {
	if len(n.edits) == 0 {
		return n.safe
	}
	switch l {
	case loseAll, keepNames, keepBare:
		return n.safe
	case keepAll, keepNewest, keepOld, keepContent:
		return n.live
	case keepZeros:
		return resized(n.safe, int64(len(n.live)))
	}
	switch chance.IntN(5) {
	case 0:
		return n.safe
	case 1:
		return n.live
	case 2:
		return resized(n.safe, int64(len(n.live)))
	case 3:
		return n.torn(chance)
	}
	return n.patched(chance)
}

// sector is what a disk writes whole.
const sector = 512

// torn returns the content after some of the edits, the last of them cut at a sector.
func (n *node) torn(chance *rand.Rand) []byte {
	content := n.safe
	stop := chance.IntN(len(n.edits))
	for _, e := range n.edits[:stop] {
		content = e.apply(content)
	}
	last := n.edits[stop]
	if last.data == nil {
		return content
	}
	end := last.at + chance.Int64N(int64(len(last.data)))
	end -= end % sector
	if end <= last.at {
		return content
	}
	return edit{at: last.at, data: last.data[:end-last.at]}.apply(content)
}

// patched returns the newest length with some sectors written and the others not.
func (n *node) patched(chance *rand.Rand) []byte {
	content := resized(n.safe, int64(len(n.live)))
	for at := 0; at < len(content); at += sector {
		if end := min(at+sector, len(content)); chance.IntN(2) == 0 {
			copy(content[at:end], n.live[at:end])
		}
	}
	return content
}
