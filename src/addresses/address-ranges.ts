import { BlockList, isIPv4, isIPv6 } from 'node:net';

/** Special-purpose IPv4 addresses (IANA registry), to which no public name should resolve. */
const special4 = new BlockList();
const specialRanges4 = [
  ['0.0.0.0', 8], // this network
  ['10.0.0.0', 8],
  ['100.64.0.0', 10], // shared by carriers; metadata services of some clouds
  ['127.0.0.0', 8],
  ['169.254.0.0', 16], // link-local; metadata services
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.31.196.0', 24],
  ['192.52.193.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['192.175.48.0', 24],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
  ['168.63.129.16', 32], // host agent of a cloud provider, on a public address
] as const;
for (const [address, bits] of specialRanges4) special4.addSubnet(address, bits, 'ipv4');

/** Global unicast IPv6 addresses; `special6` contains its special-purpose parts. */
const global6 = new BlockList();
global6.addSubnet('2000::', 3, 'ipv6');
const special6 = new BlockList();
const specialRanges6 = [
  ['2001::', 23], // Teredo, benchmarks, ORCHID
  ['2001:db8::', 32],
  ['2002::', 16], // 6to4: an IPv4 address inside
  ['2620:4f:8000::', 48],
  ['3fff::', 20],
] as const;
for (const [address, bits] of specialRanges6) special6.addSubnet(address, bits, 'ipv6');

/** Whether an address is on the public internet. False for IPv4 addresses in IPv6 form (mapped, NAT64). */
export function isPublic(address: string): boolean {
  if (isIPv4(address)) return !special4.check(address, 'ipv4');
  // Only link-local addresses have a zone (`%eth0`).
  if (!isIPv6(address) || address.includes('%')) return false;
  return global6.check(address, 'ipv6') && !special6.check(address, 'ipv6');
}

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

export const isLoopback = (address: string): boolean =>
  isIPv4(address) ? loopback.check(address, 'ipv4') : isIPv6(address) && loopback.check(address, 'ipv6');

const private4 = new BlockList();
private4.addSubnet('10.0.0.0', 8, 'ipv4');
private4.addSubnet('172.16.0.0', 12, 'ipv4');
private4.addSubnet('192.168.0.0', 16, 'ipv4');
private4.addSubnet('127.0.0.0', 8, 'ipv4');
const private6 = new BlockList();
private6.addSubnet('fc00::', 7, 'ipv6');
private6.addAddress('::1', 'ipv6');
/** Cloud metadata services in the private IPv6 range. Those of IPv4 are link-local, which is not private. */
const metadata6 = new BlockList();
metadata6.addAddress('fd00:ec2::254', 'ipv6');
metadata6.addAddress('fd20:ce::254', 'ipv6');

/**
 * Whether an address is a loopback or private-network address (RFC 1918, unique local). False for link-local and
 * carrier-grade NAT addresses, metadata services, and IPv4 addresses in IPv6 form.
 */
export function isPrivate(address: string): boolean {
  if (isIPv4(address)) return private4.check(address, 'ipv4');
  if (!isIPv6(address) || address.includes('%')) return false;
  return private6.check(address, 'ipv6') && !metadata6.check(address, 'ipv6');
}
