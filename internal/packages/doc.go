// Package packages transfers and opens the packages of dumps (1.1 §11, §13), either
// whole or in parts by range requests. It reads their manifests and extracts members in
// the order of the plan, and it holds only a few members at a time.
package packages
