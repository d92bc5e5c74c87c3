package setup

import (
	"context"
	"errors"

	"agentstateloop/commands/terminal"
	"agentstateloop/mesh"
)

// tryMesh asks the mesh how it is, and for our mailbox, from which it takes nothing. What
// does not work is asked again, or kept.
func (in *interview) tryMesh(ctx context.Context, handle string, m *meshPart) error {
	for m.url != "" && in.reaches() && !in.Print {
		client := &mesh.Client{URL: m.url, Handle: handle, Timeout: 2 * trialTime}
		if m.tokenFile != "" {
			client.Token = in.Loader.SecretFile(m.tokenFile)
		}
		err := in.trial(ctx, m.url, func(ctx context.Context) error {
			if _, err := client.Status(ctx); err != nil {
				return err
			}
			_, err := client.Mailbox(ctx, 0)
			return err
		})
		if err == nil {
			return nil
		}
		if kept, err := in.Asker.Keep(ctx, meshHint(err, m), "keep it as it is?"); kept || err != nil {
			return err
		}
		if refused(err) {
			m.tokenFile, err = in.Asker.Ask(ctx, "", terminal.Question{Flag: "mesh-token-file", Text: "the file with the agent's token for the mesh", Guess: m.tokenFile, Check: isText})
			err = errors.Join(err, in.makeAbsolute(&m.tokenFile))
		} else {
			m.url, err = in.Asker.Ask(ctx, "", terminal.Question{Flag: "mesh-url", Text: "the URL of the mesh", Guess: m.url, Check: isText})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// meshHint adds what may help to the error of a mesh.
func meshHint(err error, m *meshPart) error {
	hint := "does it run there? `" + terminal.Program + " mesh serve` starts one"
	switch {
	case terminal.HintOf(err) != "":
		return err
	case unread(err):
		hint = "correct the file, or name another"
	case refused(err) && m.tokenFile == "":
		hint = "this mesh asks for a token"
	case refused(err):
		hint = "the token in " + m.tokenFile + " must be the one that the mesh has for this agent"
	}
	return terminal.WithHint(err, hint)
}
