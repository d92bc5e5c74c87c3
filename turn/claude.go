package turn

func claudeAgent() agent { return agent{} }
func codexAgent() agent  { return agent{} }
func geminiAgent() agent { return agent{} }
