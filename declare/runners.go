package declare

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Runners returns by key what a file, which Read accepts, says of how each receiver is
// run: http or exec, and what is in it. References to the environment are as
// they stand, so that no secret is in it. Of two readings of a file it tells
// whose destination changed, which no registry can.
func Runners(file []byte) map[string]string {
	r := &reader{}
	root := r.parse(file)
	if root == nil {
		return nil
	}
	runners := map[string]string{}
	list := r.section(root, "").take("receivers")
	if list == nil {
		return nil
	}
	for _, item := range list.Content {
		s := r.section(resolve(item), "")
		key, ok := s.fields["key"]
		if !ok {
			continue
		}
		for _, name := range runnerNames {
			if f, ok := s.fields[name]; ok {
				runners[key.value.Value] += name + " " + canonical(f.value, 4)
			}
		}
	}
	return runners
}

// canonical writes a node so that two of the same meaning are the same text. What Read
// accepts is not as deep as depth, which bounds aliases within aliases.
func canonical(node *yaml.Node, depth int) string {
	if depth == 0 {
		return "…"
	}
	var parts []string
	node = resolve(node)
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			parts = append(parts, canonical(node.Content[i], depth-1)+": "+canonical(node.Content[i+1], depth-1))
		}
		slices.Sort(parts)
		return "{" + strings.Join(parts, ", ") + "}"
	case yaml.SequenceNode:
		for _, item := range node.Content {
			parts = append(parts, canonical(item, depth-1))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return strconv.Quote(node.Value)
}
