// Package packages transfers and opens the packages of dumps (1.1 §11, §13): whole, or by parts of
// a package that stays where it is. It reads their manifests and takes members out of them in
// the order in which they are wanted, of which it holds few at a time.
package packages
