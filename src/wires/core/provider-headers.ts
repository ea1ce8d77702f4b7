import type { WireKind } from './types.ts';

type Headers = Readonly<Record<string, string>>;

const bearer = (key: string): Headers => ({ authorization: `Bearer ${key}` });

const credentialHeaderByWire: Readonly<Record<WireKind, (key: string) => Headers>> = {
  'openai-chat': bearer,
  'openai-responses': bearer,
  lathe: bearer,
  'anthropic-messages': (key) => ({ 'x-api-key': key }),
  google: (key) => ({ 'x-goog-api-key': key }),
};

/** Further headers that a wire requires. */
const requiredHeaders: Partial<Record<WireKind, Headers>> = {
  'anthropic-messages': { 'anthropic-version': '2023-06-01' },
};

/**
 * Builds the headers of an upstream request: those of the wire, then those of the body, then the credential, which nothing
 * overrides.
 * @param cloudResource whether the request goes to a cloud resource, which takes the key in `api-key` on every wire
 */
export function providerHeaders(
  wire: WireKind,
  { apiKey, isCloudResource }: { readonly apiKey: string | undefined; readonly isCloudResource: boolean },
  extraHeaders: Headers = {},
): Record<string, string> {
  // A caller's own endpoint may need no key.
  const credential = !apiKey
    ? {}
    : isCloudResource
      ? { 'api-key': apiKey }
      : credentialHeaderByWire[wire](apiKey);
  return {
    'user-agent': 'lathe',
    // Compressed streams are delayed until a block is full.
    'accept-encoding': 'identity',
    ...requiredHeaders[wire],
    ...extraHeaders,
    ...credential,
  };
}
