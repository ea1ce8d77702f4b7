/** Length of the prompt prefix that selects a host or a deployment, in UTF-16 units. It stays the same while a conversation grows. */
const prefixLength = 1024;

export const hashPrefix = (prefix: string): number => hashOf(prefix.slice(0, prefixLength));

/** FNV-1a over UTF-16 units. */
export function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1)
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return hash;
}

/** Mixes a hash so that similar inputs differ in all 32 bits. @returns an unsigned number of 32 bits */
export function mixBits(hash: number): number {
  let mix = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  mix = Math.imul(mix ^ (mix >>> 13), 0xc2b2ae35);
  return (mix ^ (mix >>> 16)) >>> 0;
}
