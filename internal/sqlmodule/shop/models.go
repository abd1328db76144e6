package shop

type ShopOrder struct {
	ID   int64
	Item string
}
