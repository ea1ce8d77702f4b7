import type { Candidate, Provider } from '../catalog/types.ts';
import type { ByokProvider } from '../config/types.ts';
import { type AddressMode, vettedBase } from './vetting.ts';

/** Where the requests of a candidate are sent. */
export type Destination =
  | { readonly kind: 'local' }
  | { readonly kind: 'hosts'; readonly provider: Provider }
  | {
      readonly kind: 'url';
      readonly mode: AddressMode;
      readonly base: URL;
      readonly cloudResource: boolean;
    };

/** The provider name for messages. */
export const nameOf = ({ model, credential }: Candidate): string =>
  credential.kind === 'byok' ? credential.provider : model.provider.id;

/**
 * Determines the destination of a candidate. URLs of the operator may lead anywhere. A URL that belongs to a credential is
 * that of a cloud resource, or of an endpoint that was registered on the command line (`kind:slug`).
 * @throws AddressRefused
 */
export function destinationOf(
  { model: { provider }, credential }: Candidate,
  byok: ReadonlyMap<string, ByokProvider>,
): Destination {
  if (credential.kind === 'byok') {
    const known = byok.get(credential.provider);
    if (credential.baseUrl === undefined) {
      const base = known?.baseUrl ?? provider.baseUrls[0] ?? '';
      return { kind: 'url', mode: 'house', base: vettedBase(base, { mode: 'house' }), cloudResource: false };
    }
    const registered = !known && credential.provider.includes(':');
    return {
      kind: 'url',
      ...resource(credential.baseUrl, registered ? 'registered' : 'public', known),
      cloudResource: !registered,
    };
  }
  if (provider.baseUrls.length === 0 && provider.id === 'local') return { kind: 'local' };
  if (provider.wire === 'lathe') {
    for (const url of provider.baseUrls) vettedBase(url, { mode: 'house' });
    return { kind: 'hosts', provider };
  }
  const base = vettedBase(provider.baseUrls[0] ?? '', { mode: 'house' });
  return { kind: 'url', mode: 'house', base, cloudResource: false };
}

function resource(text: string, mode: AddressMode, known: ByokProvider | undefined) {
  const { hostSuffixes = [], basePath = '' } = known ?? {};
  return { mode, base: vettedBase(text, { mode, hostSuffixes, basePath }) };
}
