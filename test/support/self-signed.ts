import { generateKeyPairSync, sign } from 'node:crypto';

/** A DER element: a tag, the length and the content. */
function element(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}
const sequence = (...parts: readonly Uint8Array[]) => element(0x30, ...parts);
const objectId = (hex: string) => element(0x06, Buffer.from(hex, 'hex'));
const text = (tag: number, value: string) => element(tag, Buffer.from(value, 'latin1'));
/** `YYYYMMDDHHMMSSZ`. */
const time = (date: Date) => text(0x18, `${date.toISOString().replaceAll(/[-:T]/g, '').slice(0, 14)}Z`);

/**
 * A certificate for `localhost` and 127.0.0.1 that is its own issuer, and its key, in PEM.
 * @param serial below 128; tells certificates apart
 */
export function selfSigned({
  serial = 1,
  from = new Date(Date.now() - 86_400_000),
  until = new Date(Date.now() + 86_400_000),
} = {}): { readonly cert: string; readonly key: string } {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const ecdsaWithSha256 = sequence(objectId('2a8648ce3d040302'));
  const name = sequence(element(0x31, sequence(objectId('550403'), text(0x0c, 'localhost'))));
  const alternativeNames = sequence(text(0x82, 'localhost'), element(0x87, Buffer.from([127, 0, 0, 1])));
  const isAuthority = sequence(element(0x01, Buffer.from([255])));
  const extensions = sequence(
    sequence(objectId('551d11'), element(0x04, alternativeNames)),
    sequence(objectId('551d13'), element(0x04, isAuthority)),
  );
  const body = sequence(
    element(0xa0, element(0x02, Buffer.from([2]))),
    element(0x02, Buffer.from([serial])),
    ecdsaWithSha256,
    name,
    sequence(time(from), time(until)),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    element(0xa3, extensions),
  );
  const signature = element(0x03, Buffer.from([0]), sign('sha256', body, privateKey));
  const base64 = sequence(body, ecdsaWithSha256, signature).toString('base64');
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${base64.replaceAll(/.{64}(?=.)/g, '$&\n')}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
  };
}
