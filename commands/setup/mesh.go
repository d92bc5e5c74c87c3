package setup

// meshPart is [mesh].
type meshPart struct {
	url, tokenFile string
	peers          []string
	keymaster      string
}

func (m meshPart) write(d *document) {
	if m.url == "" {
		return
	}
	d.section("mesh")
	d.line("url", m.url, "")
	if m.tokenFile != "" {
		d.line("token_file", path(m.tokenFile), "mode 0600")
	}
	if len(m.peers) > 0 {
		d.line("peers", m.peers, "their messages cause turns")
	}
	if m.keymaster != "" {
		d.line("keymaster", m.keymaster, "learns of passwords that fail")
	}
}
