import { canonicalJson } from '../../../../src/signing/canonical-json.ts';

/** What is signed, and by whom; other members count in the digest as they are. */
export interface Signed {
  readonly digest: string;
  readonly prev_digest: string;
  readonly seq?: number;
  readonly signature: { readonly alg: string; readonly key_id: string; readonly value: string };
}
/** Of the host, as its identity card tells it. */
export interface ReceiptKey {
  readonly key_id: string;
  /** Base64 of 32 bytes. */
  readonly public_key: string;
}

export interface Finding {
  readonly what: string;
  /** Undefined: it could not be looked at here. */
  readonly ok: boolean | undefined;
  readonly said: string;
}

/** What the first receipt of a chain has as the digest before it. */
export const chainStart = `sha256:${'0'.repeat(64)}`;

/** Judges a receipt by itself: whether its members are those that were signed, and by whom. */
export async function checkReceipt(receipt: Signed, key: ReceiptKey | undefined): Promise<Finding[]> {
  // It is not there on pages of other origins than https and this machine.
  if ((crypto.subtle as SubtleCrypto | undefined) === undefined)
    return [
      {
        what: 'Signature',
        ok: undefined,
        said: "Browsers check signatures on pages from https or from this machine's own address only.",
      },
    ];
  return [await digestFinding(receipt), await keyFinding(receipt, key), await signatureFinding(receipt, key)];
}

/** Whether a receipt follows the one before it; undefined for a `before` that is not known. */
export function linkFinding(receipt: Signed, before: Signed | undefined): Finding {
  const what = 'Chain';
  if (receipt.seq === 1) {
    const ok = receipt.prev_digest === chainStart;
    return {
      what,
      ok,
      said: ok ? 'It is the first one.' : 'It says it is the first one, but names another.',
    };
  }
  if (!before)
    return { what, ok: undefined, said: 'The receipt before it was not fetched, so this link is unchecked.' };
  if (before.seq !== undefined && receipt.seq !== undefined && receipt.seq !== before.seq + 1)
    return {
      what,
      ok: false,
      said: `It is number ${receipt.seq}, but the one before it is number ${before.seq}.`,
    };
  const ok = receipt.prev_digest === before.digest;
  return {
    what,
    ok,
    said: ok
      ? 'It names the digest of the receipt before it.'
      : 'It does not name the digest of the receipt before it: one was replaced, or they were moved.',
  };
}

async function digestFinding(receipt: Signed): Promise<Finding> {
  const { digest, signature: _, ...signed } = receipt;
  const what = 'Digest';
  let text: string;
  try {
    text = canonicalJson(signed);
  } catch {
    return { what, ok: false, said: 'Its members have no canonical JSON.' };
  }
  const own = `sha256:${hex(await sha256(new TextEncoder().encode(text)))}`;
  return own === digest
    ? { what, ok: true, said: 'It is the SHA-256 of the receipt’s members in canonical JSON.' }
    : { what, ok: false, said: `Its members are not those that were signed: they give ${own}.` };
}

async function keyFinding({ signature }: Signed, key: ReceiptKey | undefined): Promise<Finding> {
  const what = 'Key';
  if (!key) return { what, ok: undefined, said: 'The host does not tell the key that it signs with.' };
  const own = `ed25519:${hex(await sha256(bytesOf(key.public_key))).slice(0, 16)}`;
  if (own !== key.key_id)
    return { what, ok: false, said: `The host's key is called ${key.key_id}, but its bytes give ${own}.` };
  return signature.key_id === key.key_id
    ? { what, ok: true, said: `${key.key_id}, the one that this host signs with.` }
    : { what, ok: false, said: `It is signed by ${signature.key_id}, not by this host's ${key.key_id}.` };
}

async function signatureFinding(receipt: Signed, key: ReceiptKey | undefined): Promise<Finding> {
  const what = 'Signature';
  const { digest, signature } = receipt;
  if (!key) return { what, ok: undefined, said: 'Without the key it cannot be checked.' };
  if (signature.alg !== 'ed25519') return { what, ok: false, said: `It is ${signature.alg}, not ed25519.` };
  let imported: CryptoKey;
  try {
    imported = await crypto.subtle.importKey('raw', bytesOf(key.public_key), 'Ed25519', false, ['verify']);
  } catch {
    return { what, ok: undefined, said: 'This browser cannot check Ed25519 signatures.' };
  }
  const fits = await crypto.subtle
    .verify('Ed25519', imported, bytesOf(signature.value), new TextEncoder().encode(digest))
    .catch(() => false);
  return fits
    ? { what, ok: true, said: 'It fits the digest and the key (Ed25519).' }
    : { what, ok: false, said: 'It does not fit the digest and the key.' };
}

const sha256 = async (bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array> =>
  new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));

const hex = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}
