/**
 * The characters of base64, in both alphabets, that stand for these bytes alone, for each of the three places of a group
 * that they may begin at: as `user:secret` of a header has its secret.
 */
export function base64Of(bytes: Buffer): string[] {
  const spellings = [0, 1, 2].flatMap((before) => {
    const written = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64url');
    // Characters that have bits of what stands before or behind the bytes are not their own.
    const own = written.slice(Math.ceil((before * 4) / 3), Math.floor(((before + bytes.length) * 4) / 3));
    return [own, own.replaceAll('-', '+').replaceAll('_', '/')];
  });
  return [...new Set(spellings)];
}
