package sizing

// queue is first in, first out.
type queue[T any] struct {
	items []T
	head  int
}

func (q *queue[T]) len() int { return len(q.items) - q.head }

func (q *queue[T]) push(item T) { q.items = append(q.items, item) }

func (q *queue[T]) first() *T { return &q.items[q.head] }

func (q *queue[T]) pop() T {
	item := q.items[q.head]
	q.head++
	if q.head > 1024 && q.head > len(q.items)/2 { // what was taken is let go
		q.items = q.items[:copy(q.items, q.items[q.head:])]
		q.head = 0
	}
	return item
}

// heap gives out its least item first.
type heap[T any] struct {
	items []T
	less  func(a, b T) bool // by value: a pointer would make each item a heap allocation
}

func (h *heap[T]) len() int { return len(h.items) }

func (h *heap[T]) first() *T { return &h.items[0] }

func (h *heap[T]) push(item T) {
	h.items = append(h.items, item)
	i := len(h.items) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(item, h.items[parent]) {
			break
		}
		h.items[i] = h.items[parent]
		i = parent
	}
	h.items[i] = item
}

func (h *heap[T]) pop() T {
	least, n := h.items[0], len(h.items)-1
	last := h.items[n]
	h.items = h.items[:n]
	if n == 0 {
		return least
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= n {
			break
		}
		if child+1 < n && h.less(h.items[child+1], h.items[child]) {
			child++
		}
		if !h.less(h.items[child], last) {
			break
		}
		h.items[i] = h.items[child]
		i = child
	}
	h.items[i] = last
	return least
}
