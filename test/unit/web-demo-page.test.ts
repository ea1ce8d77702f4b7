import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { demoPolicy } from '../../src/planes/pages/policy.ts';
import { modelUrlFault, resolveModelUrl } from '../../web/demo/model-url.ts';
import { repository } from '../support/host.ts';

describe('the page of the demo', () => {
  it('has the same Content-Security-Policy as the host, for static servers that send none', () => {
    const html = readFileSync(join(repository, 'web/demo/index.html'), 'utf8');
    const [, policy] = /http-equiv="Content-Security-Policy"\s+content="([^"]+)"/.exec(html) ?? [];
    // frame-ancestors cannot be set in a meta element.
    const sayable = demoPolicy.split('; ').filter((rule) => !rule.startsWith('frame-ancestors'));
    expect(policy?.split('; ').sort()).toEqual(sayable.sort());
  });
});

describe('the address of a model', () => {
  const page = 'http://192.168.1.5:8080/demo/?temperature=1';

  it.each([
    'https://huggingface.co/a/b/resolve/main/c.gguf',
    'http://localhost:9000/c.gguf',
    'http://127.0.0.1/c.gguf',
    'http://192.168.1.5:8080/models/c.gguf',
    '../models/c.gguf',
  ])('may be %s', (text) => {
    expect(modelUrlFault(text, page)).toBeUndefined();
  });

  it.each([
    ['http://other.example/c.gguf', 'must start with https://, except for this server and localhost'],
    ['http://192.168.1.5:9090/c.gguf', 'must start with https://, except for this server and localhost'],
    ['file:///c.gguf', 'must be a URL, for example https://host/model.gguf'],
    ['https://', 'must be a URL, for example https://host/model.gguf'],
  ])('may not be %s', (text, fault) => {
    expect(modelUrlFault(text, page)).toBe(fault);
  });

  it('is resolved by the page, and loses its fragment', () => {
    expect(resolveModelUrl('../models/c.gguf#x', page)).toBe('http://192.168.1.5:8080/models/c.gguf');
    expect(resolveModelUrl('https://', page)).toBe('https://');
  });
});
