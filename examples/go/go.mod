module warplock.example

go 1.21
