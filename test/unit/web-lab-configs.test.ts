import { describe, expect, it } from 'vitest';
import {
  type Config,
  configDiff,
  sideOfBindings,
  sideOfConfig,
} from '../../web/console/views/lab/configs/config-text.ts';

const config = (name: string, source: string, components: string[], digest = 'sha256:aa'): Config =>
  ({
    contract: 1,
    name,
    model: { digest: 'sha256:m', architecture: 'llama' },
    bindings: [{ kernel: 'mine', components }],
    kernels: [{ name: 'mine', op: 'rms_norm', digest, dispatch: { x: 'tokens' }, source }],
    evidence: {},
    fingerprint: {},
    created_at: '2026-01-01T00:00:00Z',
    signature: {},
  }) as unknown as Config;

describe('the difference of configs', () => {
  it('is empty when they bind the same, regardless of author and time', () => {
    const one = sideOfConfig(config('one', 'fn main() {}', ['b', 'a']));
    const two = sideOfConfig({ ...config('two', 'fn main() {}', ['a', 'b']), created_at: 'later' });
    expect(configDiff(one, two)).toBeUndefined();
  });

  it('is a unified diff of bindings, digests and sources', () => {
    const one = sideOfConfig(config('one', 'fn main() {\n  a();\n}', ['layers.2.x', 'layers.10.x']));
    const two = sideOfConfig(config('two', 'fn main() {\n  b();\n}', ['layers.2.x'], 'sha256:bb'));
    expect(configDiff(one, two)?.split('\n')).toEqual([
      '--- one',
      '+++ two',
      '@@ -1,11 +1,10 @@',
      ' model: llama sha256:m',
      ' layers.2.x = mine',
      '-layers.10.x = mine',
      ' ',
      ' kernel mine',
      '   op: rms_norm',
      '-  digest: sha256:aa',
      '+  digest: sha256:bb',
      '   dispatch: {"x":"tokens"}',
      '   | fn main() {',
      '-  |   a();',
      '+  |   b();',
      '   | }',
    ]);
  });

  it('compares with the current bindings by node and digest', () => {
    const spans = new Map([['span', ['a', 'b']]]);
    const saved = sideOfConfig(config('saved', 'fn main() {}', ['span']), spans);
    const bound = (digest: string) =>
      sideOfBindings({
        components: [
          { id: 'b', op: 'rms_norm', kernel: 'mine' },
          { id: 'a', op: 'rms_norm', kernel: 'mine' },
          { id: 'c', op: 'add', kernel: 'builtin:add.wgsl' },
        ],
        slots: [],
        kernels: [
          { name: 'mine', op: 'rms_norm', digest, state: 'accepted' },
          { name: 'idle', op: 'add', digest: 'sha256:cc', state: 'accepted' },
        ],
      });
    expect(configDiff(bound('sha256:aa'), saved)).toBeUndefined();
    expect(configDiff(bound('sha256:bb'), saved)).toContain('-  digest: sha256:bb\n+  digest: sha256:aa');
  });
});
