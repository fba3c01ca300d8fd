module billing

go 1.26.8

require (
	github.com/stretchr/testify v1.11.1
	github.com/twmb/franz-go v1.22.2
)

require (
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	github.com/twmb/franz-go/pkg/kmsg v1.15.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
