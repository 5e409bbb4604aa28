/* What the tables of devices have as their support. */
#ifndef STERNA_DEVICES_NODES_H
#define STERNA_DEVICES_NODES_H

struct device_support;
extern const struct device_support sterna_device_nodes;

#endif
