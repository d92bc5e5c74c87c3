package cycle

import (
	"context"
	"errors"
	"slices"

	"agentstateloop/cycle/files"
	"agentstateloop/internal/plain"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// The files of a message that a gate rejected are next to it in quarantine, within the limits
// of quarantine. So it can be released with them (docs/design.md, "Files between agents").

// holdsFiles reports whether a message is rejected, could be released, and has files.
func (ad *admission) holdsFiles(m mesh.Message) bool {
	gate, _ := ad.mesh.gate(m)
	return gate != "" && len(m.Files) > 0 && (causesTurn(m) || m.Kind == mesh.KindReport) && m.From != ad.handle && m.Malformed() == ""
}

// rejectWithFiles keeps a message that a gate rejects in quarantine with its files. It requests
// each file once, because a rejected message must not stay on the mesh. It returns nil if this
// poll has no time for the requests.
func (ad *admission) rejectWithFiles(ctx context.Context, d files.Downloader, m mesh.Message) (state.Event, error) {
	e := ad.rejectMesh(m, "", "", false)
	e.Gate, e.Reason = ad.mesh.gate(m)
	v := verdictOnMesh(e)
	for _, f := range m.Files {
		v.Files += f.Size
	}
	room, err := ad.quarantine.Room(v, "", v.Files+mesh.MaxMessage)
	if err != nil {
		return nil, err
	}
	m.Files = slices.Clone(m.Files)
	v.Files = 0
	for i, f := range m.Files {
		m.Files[i].Missing = "the quarantine had no room for it"
		if !room {
			continue
		}
		m.Files[i].Missing = ""
		switch err := d.FetchOne(ctx, files.QuarantinedName(e.Key, i), m.From, f); {
		case err == nil:
			v.Files += f.Size
		case ctx.Err() != nil || errors.Is(err, files.ErrNoTime):
			return nil, nil
		default:
			m.Files[i].Missing = "it could not be had when its message was put into quarantine: " + plain.Brief(err.Error())
		}
	}
	return ad.quarantineMesh(e, v, m)
}
