/* What the tables of devices have as their support. */
#ifndef STERNA_DEVICES_NODES_H
#define STERNA_DEVICES_NODES_H

struct device_support;
extern const struct device_support sterna_device_nodes;
/* And as their bindings: bindings.c. */
extern const struct sterna_device_bindings sterna_device_bindings_of_nodes;

#endif
