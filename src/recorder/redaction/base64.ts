/**
 * The base64 characters, in both alphabets, that encode only these bytes, for each of the three offsets in a base64
 * group at which they may begin. They find, for example, the secret in the base64 of `user:secret`.
 */
export function base64Fragments(bytes: Buffer): string[] {
  const spellings = [0, 1, 2].flatMap((offset) => {
    const encoded = Buffer.concat([Buffer.alloc(offset), bytes]).toString('base64url');
    // Characters that also encode bits of the bytes before or after are left out.
    const ownCharacters = encoded.slice(
      Math.ceil((offset * 4) / 3),
      Math.floor(((offset + bytes.length) * 4) / 3),
    );
    return [ownCharacters, ownCharacters.replaceAll('-', '+').replaceAll('_', '/')];
  });
  return [...new Set(spellings)];
}
