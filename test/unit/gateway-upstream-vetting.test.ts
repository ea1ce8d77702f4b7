import { describe, expect, it } from 'vitest';
import { isPrivate } from '../../src/addresses/address-ranges.ts';
import { providerHeaders } from '../../src/wires/provider-headers.ts';
import { destinationOf } from '../../src/gateway/upstream/destination.ts';
import { AddressRefusedError, vetBaseUrl, vetUrl } from '../../src/gateway/upstream/address-vetting.ts';
import { aCandidate, ownCandidate } from '../support/gateway/candidates.ts';

const cloud = {
  mode: 'public',
  hostSuffixes: ['.openai.azure.com', '.cognitiveservices.azure.com'],
  basePath: '/openai/v1',
} as const;

describe('isPrivate', () => {
  it.each(
    '10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 127.0.0.1 127.255.255.255 ::1 fc00::1 fd12:3456::1'.split(
      ' ',
    ),
  )('%s is', (address) => {
    expect(isPrivate(address)).toBe(true);
  });
  it.each(
    '0.0.0.0 8.8.8.8 9.255.255.255 11.0.0.1 100.64.0.1 100.100.100.200 169.254.169.254 169.254.0.1 172.15.255.255 172.32.0.1 192.0.0.192 192.167.0.1 192.169.0.1 168.63.129.16 224.0.0.1 255.255.255.255 :: fe80::1 fe80::1%eth0 fec0::1 ff02::1 2001:4860::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::127.0.0.1 64:ff9b::a00:1 2002:a00:1:: fd00:ec2::254 fd20:ce::254 FD00:EC2:0:0:0:0:0:254 localhost 10.1'.split(
      ' ',
    ),
  )('%s is not', (address) => {
    expect(isPrivate(address)).toBe(false);
  });
});

describe('the URL of a cloud resource', () => {
  it.each([
    'https://mine.openai.azure.com',
    'https://mine.openai.azure.com/',
    'https://mine.openai.azure.com:443/',
    'HTTPS://MINE.OpenAI.Azure.COM/openai/v1',
    'https://mine.openai.azure.com/openai/v1/',
    // The URL parser normalizes full-width letters and ideographic full stops.
    'https://ｍine。openai.azure.com',
  ])('%s is the base of its API', (text) => {
    expect(vetBaseUrl(text, cloud).href).toBe('https://mine.openai.azure.com/openai/v1');
  });

  it.each([
    ['not a URL', ''],
    ['not a URL', 'mine.openai.azure.com'],
    ['another scheme', 'http://mine.openai.azure.com'],
    ['another scheme', 'ftp://mine.openai.azure.com'],
    ['another scheme', 'file:///etc/passwd'],
    ['another scheme', 'javascript:alert(1)//x.openai.azure.com'],
    ['a user', 'https://user@mine.openai.azure.com'],
    ['a password', 'https://:sk-secret@mine.openai.azure.com'],
    ['another host behind a user', 'https://mine.openai.azure.com@evil.example'],
    ['another host behind a backslash', 'https://evil.example\\.openai.azure.com'],
    ['another port', 'https://mine.openai.azure.com:8443'],
    ['another port', 'https://mine.openai.azure.com:80'],
    ['a query', 'https://mine.openai.azure.com/?x'],
    ['a fragment', 'https://mine.openai.azure.com/#.openai.azure.com'],
    ['another path', 'https://mine.openai.azure.com/admin'],
    ['another path', 'https://mine.openai.azure.com/openai/v1/../../admin'],
    ['the suffix alone', 'https://openai.azure.com'],
    ['the suffix as a part', 'https://evilopenai.azure.com'],
    ['the suffix in the middle', 'https://mine.openai.azure.com.evil.example'],
    ['the suffix in the path', 'https://evil.example/.openai.azure.com'],
    ['a dot at the end', 'https://mine.openai.azure.com.'],
    ['a look-alike', 'https://mine.openаi.azure.com'],
    ['an address', 'https://127.0.0.1'],
    ['an address', 'https://1.1.1.1'],
    ['an address', 'https://[::1]'],
    ['an address', 'https://[::ffff:169.254.169.254]'],
    ['an address', 'https://2852039166/'],
    ['an address', 'https://0xA9FEA9FE/'],
    ['localhost', 'https://localhost'],
  ])('is refused with %s: %s', (_, text) => {
    const vet = () => vetBaseUrl(text, cloud);
    expect(vet).toThrow(AddressRefusedError);
    expect(vet).not.toThrow(/secret|evil|passwd/);
  });

  it('is refused when the provider has no such resources', () => {
    expect(() => vetBaseUrl('https://mine.openai.azure.com', { mode: 'public' })).toThrow(
      AddressRefusedError,
    );
    expect(() => vetBaseUrl('https://mine.openai.azure.com', { mode: 'public', hostSuffixes: [''] })).toThrow(
      AddressRefusedError,
    );
  });
});

describe('a registered endpoint', () => {
  const vet = (text: string) => vetBaseUrl(text, { mode: 'registered' }).href;

  it.each([
    ['http://127.0.0.1:8080/v1/', 'http://127.0.0.1:8080/v1'],
    ['http://localhost:11434/v1', 'http://localhost:11434/v1'],
    ['http://192.168.1.7/v1', 'http://192.168.1.7/v1'],
    ['http://0x7f.1:8080/v1', 'http://127.0.0.1:8080/v1'],
    ['http://[::1]:8080/v1', 'http://[::1]:8080/v1'],
    ['http://[fd12::7]/v1', 'http://[fd12::7]/v1'],
    // Host names are resolved for every connection.
    ['http://box.lan/v1', 'http://box.lan/v1'],
    ['https://api.example.com:8443/v1', 'https://api.example.com:8443/v1'],
    ['https://1.1.1.1/v1', 'https://1.1.1.1/v1'],
  ])('%s may be', (text, href) => {
    expect(vet(text)).toBe(href);
  });

  it.each(
    // Plain http to public and metadata addresses, also in unusual notations; https to private addresses.
    `http://8.8.8.8/v1 http://169.254.169.254/v1 http://2852039166/v1 http://0xA9FEA9FE/v1 http://0251.0376.0251.0376/v1
    http://169.254.43518/v1 http://[::ffff:169.254.169.254]/v1 http://[::ffff:127.0.0.1]/v1 http://[::ffff:7f00:1]/v1
    http://[fd00:ec2::254]/v1 http://[64:ff9b::7f00:1]/v1 http://[2002:7f00:1::]/v1 http://[::]/v1 http://0/v1 http://0.0.0.0/v1
    http://100.100.100.200/v1 http://168.63.129.16/v1 http://192.0.0.192/v1 http://[fe80::1]/v1 http://169.254.169.254./v1
    https://127.0.0.1/v1 https://127.1/v1 https://2130706433/v1 https://017700000001/v1 https://10.0.0.1/v1 https://[::1]/v1
    https://[::ffff:8.8.8.8]/v1 https://169.254.169.254/v1 https://[2002:808:808::]/v1 https://[64:ff9b::808:808]/v1
    ftp://127.0.0.1/v1 http://user@127.0.0.1/v1 https://user:pass@api.example.com/v1 http://127.0.0.1/v1?x http://127.0.0.1/v1#x nowhere`
      .split(/\s+/)
      .map((text) => [text]),
  )('%s may not', (text) => {
    expect(() => vet(text)).toThrow(AddressRefusedError);
  });
});

describe("the operator's own URLs", () => {
  it('may lead to any address, over http and https', () => {
    for (const text of ['http://10.0.0.1/v1', 'https://127.0.0.1:8443/v1', 'http://169.254.169.254/v1'])
      expect(vetBaseUrl(`${text}/`, { mode: 'house' }).href).toBe(text);
    expect(vetUrl('https://api.example.com/v1/models?limit=1', { mode: 'house' }).search).toBe('?limit=1');
    for (const text of ['', 'ftp://x/v1', 'api.example.com/v1'])
      expect(() => vetBaseUrl(text, { mode: 'house' })).toThrow(AddressRefusedError);
  });
});

describe('the destination of a candidate', () => {
  const azure = { id: 'azure', wire: 'openai-chat', baseUrl: undefined, ...cloud } as const;
  const openai = {
    id: 'openai',
    wire: 'openai-chat',
    baseUrl: 'https://api.openai.com/v1',
    hostSuffixes: [],
    basePath: '',
  } as const;
  const byok = [azure, openai];
  const at = (href: string, mode: string, cloudResource: boolean) => ({
    kind: 'url',
    mode,
    base: new URL(href),
    isCloudResource: cloudResource,
  });

  it('depends on the author of the URL', () => {
    const own = ownCandidate('azure', 'https://mine.openai.azure.com');
    expect(destinationOf(own, byok)).toEqual(at('https://mine.openai.azure.com/openai/v1', 'public', true));
    expect(destinationOf(ownCandidate('openai'), byok)).toEqual(
      at('https://api.openai.com/v1', 'house', false),
    );
    expect(destinationOf(ownCandidate('ollama:box', 'http://10.0.0.7:11434/v1'), byok)).toEqual(
      at('http://10.0.0.7:11434/v1', 'registered', false),
    );
    expect(destinationOf(aCandidate('http://10.0.0.7/v1/'), byok)).toEqual(
      at('http://10.0.0.7/v1', 'house', false),
    );
    expect(destinationOf(aCandidate([], { id: 'local' }), byok)).toEqual({ kind: 'local' });
    const hosts = aCandidate(['http://a/v1', 'http://b/v1'], { wire: 'lathe' });
    expect(destinationOf(hosts, byok)).toEqual({ kind: 'hosts', provider: hosts.model.provider });
    expect(() => destinationOf(aCandidate(['http://a/v1', 'b'], { wire: 'lathe' }), byok)).toThrow(
      AddressRefusedError,
    );
  });

  it('determines the header of the credential', () => {
    const own = { apiKey: 'sk-own', isCloudResource: true };
    expect(providerHeaders('openai-chat', own)).toMatchObject({ 'api-key': 'sk-own' });
    expect(providerHeaders('openai-chat', own)).not.toHaveProperty('authorization');
    expect(providerHeaders('openai-chat', { ...own, isCloudResource: false })).not.toHaveProperty('api-key');
  });
});
