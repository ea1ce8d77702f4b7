import type { WireKind } from '../../wires/core/types.ts';

type Headers = Readonly<Record<string, string>>;

const bearer = (key: string): Headers => ({ authorization: `Bearer ${key}` });

const byWire: Readonly<Record<WireKind, (key: string) => Headers>> = {
  'openai-chat': bearer,
  'openai-responses': bearer,
  lathe: bearer,
  'anthropic-messages': (key) => ({ 'x-api-key': key }),
  google: (key) => ({ 'x-goog-api-key': key }),
};

/** What the wire wants to see beside a key. */
const always: Partial<Record<WireKind, Headers>> = {
  'anthropic-messages': { 'anthropic-version': '2023-06-01' },
};

/**
 * The headers of a request to a provider: its wire's, then those of the body, then the credential, which nothing
 * overrides.
 * @param cloudResource it goes to a resource of a cloud, whatever the wire
 */
export function providerHeaders(
  wire: WireKind,
  { apiKey, cloudResource }: { readonly apiKey: string | undefined; readonly cloudResource: boolean },
  more: Headers = {},
): Record<string, string> {
  // An endpoint of the caller's own may want none.
  const credential = !apiKey ? {} : cloudResource ? { 'api-key': apiKey } : byWire[wire](apiKey);
  return {
    'user-agent': 'lathe-gateway',
    // What is packed would be held back until it is worth a block.
    'accept-encoding': 'identity',
    ...always[wire],
    ...more,
    ...credential,
  };
}
