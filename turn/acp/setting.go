package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// offer is a setting of a session that the agent offers.
type offer struct {
	ID       string          `json:"id"`
	Category string          `json:"category"`
	Type     string          `json:"type"` // select or boolean
	Current  json.RawMessage `json:"currentValue"`
	Values   []offeredValue  `json:"options"`
}

// offeredValue is a value of a setting, or a group of values.
type offeredValue struct {
	Value  string         `json:"value"`
	Values []offeredValue `json:"options"`
}

// The settings that had their own requests before the protocol had general settings.
const (
	modelSetting = "model"
	modeSetting  = "mode"
)

// offers are the settings of a session. An agent may offer its models and modes in the older
// form, in the newer form, or in both.
type offers struct {
	settings      []offer
	models, modes choice
}

// choice is a setting in the older form.
type choice struct {
	current string
	ids     []string
}

// parseOffers parses the answer to the request that opened a session. It skips settings that do
// not parse.
func parseOffers(result json.RawMessage) (o offers) {
	var all struct {
		Settings []json.RawMessage `json:"configOptions"`
		Models   json.RawMessage   `json:"models"`
		Modes    json.RawMessage   `json:"modes"`
	}
	_ = json.Unmarshal(result, &all) // fields that parse are used
	for _, raw := range all.Settings {
		var s offer
		if json.Unmarshal(raw, &s) == nil && s.ID != "" {
			o.settings = append(o.settings, s)
		}
	}
	var models struct {
		Current string `json:"currentModelId"`
		All     []struct {
			ID string `json:"modelId"`
		} `json:"availableModels"`
	}
	if json.Unmarshal(all.Models, &models) == nil {
		o.models.current = models.Current
		for _, m := range models.All {
			o.models.ids = append(o.models.ids, m.ID)
		}
	}
	var modes struct {
		Current string `json:"currentModeId"`
		All     []struct {
			ID string `json:"id"`
		} `json:"availableModes"`
	}
	if json.Unmarshal(all.Modes, &modes) == nil {
		o.modes.current = modes.Current
		for _, m := range modes.All {
			o.modes.ids = append(o.modes.ids, m.ID)
		}
	}
	return o
}

// setting returns the setting with this id, or otherwise with this category.
func (o offers) setting(name string) (offer, bool) {
	i := slices.IndexFunc(o.settings, func(s offer) bool { return s.ID == name })
	if i < 0 {
		i = slices.IndexFunc(o.settings, func(s offer) bool { return s.Category == name })
	}
	if i < 0 {
		return offer{}, false
	}
	return o.settings[i], true
}

// model returns the model of the session, or "".
func (o offers) model() string {
	if s, ok := o.setting(modelSetting); ok {
		return cmp.Or(s.current(), o.models.current)
	}
	return o.models.current
}

// names returns the names of the settings that can be chosen.
func (o offers) names() (names []string) {
	for _, s := range o.settings {
		names = append(names, displayName(s.ID))
	}
	if len(o.models.ids) > 0 {
		names = append(names, modelSetting)
	}
	if len(o.modes.ids) > 0 {
		names = append(names, modeSetting)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// current returns the value as text.
func (s offer) current() string {
	var text string
	if json.Unmarshal(s.Current, &text) == nil {
		return text
	}
	return string(s.Current)
}

// values returns the possible values. Some agents group them.
func values(all []offeredValue) (ids []string) {
	for _, v := range all {
		if v.Value != "" {
			ids = append(ids, v.Value)
		}
		ids = append(ids, values(v.Values)...)
	}
	return ids
}

// settingError is the error for a setting that the agent lacks or rejects.
type settingError struct{ text string }

func (e *settingError) Error() string { return e.text }

// applyOptions applies Options, the model first, because other settings may depend on it. Unless
// Options include a mode, choose puts an agent that has askingMode into it.
func (c *client) applyOptions(ctx context.Context, o offers) (err error) {
	names := slices.SortedFunc(maps.Keys(c.Options), func(a, b string) int {
		return cmp.Or(cmp.Compare(settingOrder(a), settingOrder(b)), cmp.Compare(a, b))
	})
	for _, name := range names {
		if o, err = c.setOption(ctx, o, name, c.Options[name]); err != nil {
			return err
		}
	}
	if model := o.model(); model != "" {
		c.meter.model = model
	}
	if _, chosen := c.Options[modeSetting]; chosen || o.modes.current == askingMode || !slices.Contains(o.modes.ids, askingMode) {
		return nil
	}
	if err := c.request(ctx, "session/set_mode", map[string]any{"modeId": askingMode}); err != nil {
		return fmt.Errorf("cannot switch the agent from mode %s to %s, in which it asks for permission: %w", displayName(o.modes.current), askingMode, err)
	}
	return nil
}

// askingMode is the mode in which agents ask for permission. Most agents with modes use this
// name. In another mode, an agent may make decisions that the cause of the turn must make.
const askingMode = "default"

// settingOrder orders the settings: the model first, the mode last.
func settingOrder(name string) int {
	switch name {
	case modelSetting:
		return 0
	case modeSetting:
		return 2
	}
	return 1
}

// setOption chooses one setting, and returns the settings after that.
func (c *client) setOption(ctx context.Context, o offers, name, value string) (offers, error) {
	s, ok := o.setting(name)
	known := values(s.Values)
	switch {
	case ok && s.current() == value:
		return o, nil
	case ok && len(known) > 0 && !slices.Contains(known, value):
		return o, invalidValue(name, value, known)
	case ok:
		return c.setConfigOption(ctx, o, s, value)
	case name == modelSetting && len(o.models.ids) > 0:
		was := o.models
		o.models.current = value
		return o, c.setLegacyOption(ctx, was, name, value, "session/set_model", "modelId")
	case name == modeSetting && len(o.modes.ids) > 0:
		was := o.modes
		o.modes.current = value
		return o, c.setLegacyOption(ctx, was, name, value, "session/set_mode", "modeId")
	}
	return o, &settingError{fmt.Sprintf("unknown setting %q; the agent offers: %s", name, cmp.Or(strings.Join(o.names(), ", "), "none"))}
}

func (c *client) setConfigOption(ctx context.Context, o offers, s offer, value string) (offers, error) {
	params := map[string]any{"configId": s.ID, "value": value}
	if s.Type == "boolean" {
		on, err := strconv.ParseBool(value)
		if err != nil {
			return o, invalidValue(s.ID, value, []string{"true", "false"})
		}
		params["type"], params["value"] = s.Type, on
	}
	params["sessionId"] = c.session
	result, err := c.call(ctx, "session/set_config_option", params, c.StartWithin)
	if err != nil {
		return o, rejectedSetting(s.ID, value, err)
	}
	after := parseOffers(result)
	if len(after.settings) > 0 {
		o.settings = after.settings
	}
	return o, nil
}

func (c *client) setLegacyOption(ctx context.Context, was choice, name, value, method, key string) error {
	switch {
	case was.current == value:
		return nil
	case !slices.Contains(was.ids, value):
		return invalidValue(name, value, was.ids)
	}
	if err := c.request(ctx, method, map[string]any{key: value}); err != nil {
		return rejectedSetting(name, value, err)
	}
	return nil
}

// request sends a request about the session.
func (c *client) request(ctx context.Context, method string, params map[string]any) error {
	params["sessionId"] = c.session
	_, err := c.call(ctx, method, params, c.StartWithin)
	return err
}

// maxNamed bounds how many values of a setting an error names.
const maxNamed = 20

func invalidValue(name, value string, known []string) error {
	more := ""
	if len(known) > maxNamed {
		known, more = known[:maxNamed], ", …"
	}
	return &settingError{fmt.Sprintf("invalid value %q for setting %s; the agent offers: %s%s", value, name, displayNames(known), more)}
}

func displayNames(values []string) string {
	var all []string
	for _, v := range values {
		all = append(all, displayName(v))
	}
	return strings.Join(all, ", ")
}

// rejectedSetting returns the error for a setting that the agent rejected. Other errors, such as a
// missing login or an agent that has ended, do not concern the setting and stay unchanged.
func rejectedSetting(name, value string, err error) error {
	if fault, ok := errors.AsType[*Fault](err); ok && fault.Code != codeAuthRequired {
		return &settingError{fmt.Sprintf("the agent rejected %q for setting %s: %s", value, name, displayName(fault.Error()))}
	}
	return err
}
