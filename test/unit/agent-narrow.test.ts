/** Narrowing grants: the result is always within the agent's own grants. */
import { mkdirSync, mkdtempSync, realpathSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { findGrantFaults } from '../../src/agent/agents/grant-faults.ts';
import { globCovers, globMatches } from '../../src/agent/agents/name-glob.ts';
import { narrowGrants } from '../../src/agent/agents/narrow-grants.ts';
import { resolveRealPath } from '../../src/agent/agents/real-path.ts';
import { allowedAddresses } from '../../src/agent/tools/network/hosts.ts';
import type { Grants } from '../../src/agent/shapes/agent-spec.ts';

const none: Grants = { tools: [], read: [], write: [], network: [], auto_approve: [] };
const asWritten = { realPath: (path: string) => path };

/** An independent implementation of the rules. */
const named = (globs: readonly string[], name: string) =>
  globs.some((glob) => {
    const parts = glob.split('*').map((part) => part.replaceAll(/[.]/g, '\\.'));
    return new RegExp(`^${parts.join('.*')}$`, 's').test(name);
  });
const below = (folders: readonly string[], path: string) =>
  folders.some((folder) => `${path}/`.startsWith(folder.endsWith('/') ? folder : `${folder}/`));
/** The rule of the tools: localhost and addresses that are not public must be named by a grant. */
const reached = (patterns: readonly string[], host: string, port: number) => {
  const allows = allowedAddresses(patterns, { host, port });
  return ['127.0.0.1', '10.1.2.3', '1.1.1.1', host].filter((address) => allows?.(address));
};

const glob = fc.string({ unit: fc.constantFrom('a', 'b', '_', '*', '*'), minLength: 1, maxLength: 6 });
const toolName = fc.string({ unit: fc.constantFrom('a', 'b', '_'), minLength: 1, maxLength: 8 });
const segment = fc.constantFrom('a', 'ab', 'b', '.h');
const path = fc.array(segment, { maxLength: 4 }).map((parts) => `/${parts.join('/')}`);
const host = fc.array(fc.constantFrom('a', 'b', 'ab', 'com'), { minLength: 1, maxLength: 3 });
const local = fc.constantFrom('localhost', 'a.localhost', '127.0.0.1', '10.1.2.3', '1.1.1.1');
const hostName = fc.oneof({ weight: 3, arbitrary: host.map((labels) => labels.join('.')) }, local);
const port = fc.constantFrom(80, 443, 8080);
const hostGrant = fc
  .tuple(fc.constantFrom('', '', '*.'), hostName, fc.option(port, { nil: undefined }))
  .map(
    ([star, name, only]) => `${/\d$/.test(name) ? '' : star}${name}${only === undefined ? '' : `:${only}`}`,
  );
const pattern = fc.oneof({ weight: 8, arbitrary: hostGrant }, fc.constantFrom('*', '*:80'));
const some = <Value>(one: fc.Arbitrary<Value>) => fc.array(one, { maxLength: 3 });
const grants = fc.record({
  tools: some(glob),
  read: some(path),
  write: some(path),
  network: some(pattern),
  auto_approve: some(glob),
});
const optionalList = <Value>(one: fc.Arbitrary<Value>) => fc.array(one, { maxLength: 1 });
/** Mostly one or two members, because larger requests are rarely within the agent's grants. */
const requestedGrants = fc.record(
  {
    tools: optionalList(glob),
    read: optionalList(path),
    write: optionalList(path),
    network: optionalList(pattern),
    auto_approve: optionalList(glob),
  },
  { requiredKeys: [] },
);

describe('globs of tools', () => {
  it('match as a regular expression of the same meaning does', () => {
    fc.assert(
      fc.property(glob, toolName, (one, name) => globMatches(one, name) === named([one], name)),
      { numRuns: 3000 },
    );
  });

  it('cover only what they match', () => {
    fc.assert(
      fc.property(glob, glob, toolName, (wide, less, name) => {
        if (globCovers(wide, less) && named([less], name)) expect(named([wide], name)).toBe(true);
      }),
      { numRuns: 3000 },
    );
  });

  it.each([
    ['*', 'fs_*', true],
    ['fs_*', 'fs_read', true],
    ['fs_*', 'fs_*_all', true],
    ['fs_*', '*', false],
    ['fs_read', 'fs_*', false],
    ['a*b', 'a**b', true],
    ['*a*', 'a', true],
    ['a*', '*a', false],
  ])('%s over %s: %s', (wide, less, covers) => expect(globCovers(wide, less)).toBe(covers));

  it('match hostile globs quickly', () => {
    expect(globMatches('*a'.repeat(100), `${'a'.repeat(50_000)}b`)).toBe(false);
  });
});

describe('narrow', () => {
  it('never grants more than the agent has', () => {
    let narrowed = 0;
    fc.assert(
      fc.property(
        grants,
        requestedGrants,
        fc.array(fc.tuple(toolName, path, hostName, port), { minLength: 10, maxLength: 20 }),
        (own, less, probes) => {
          const left = narrowGrants(own, less, asWritten).grants;
          if (left === undefined) return;
          narrowed++;
          for (const [tool, file, name, on] of probes) {
            if (named(left.tools, tool)) expect(named(own.tools, tool)).toBe(true);
            if (named(left.auto_approve, tool)) expect(named(own.auto_approve, tool)).toBe(true);
            if (below(left.write, file)) expect(below(own.write, file)).toBe(true);
            if (below(left.read, file)) expect(below([...own.read, ...own.write], file)).toBe(true);
            expect(reached(own.network, name, on)).toEqual(
              expect.arrayContaining(reached(left.network, name, on)),
            );
          }
        },
      ),
      { numRuns: 5000 },
    );
    expect(narrowed).toBeGreaterThan(500);
  });

  it("returns requested grants that equal the agent's", () => {
    fc.assert(
      fc.property(grants, (own) => {
        expect(narrowGrants(own, own, asWritten).grants).toEqual(own);
      }),
    );
  });

  it('keeps absent members, and removes the grants of empty lists', () => {
    const own: Grants = { ...none, tools: ['fs_*'], read: ['/a'], network: ['x.org'] };
    expect(narrowGrants(own, {}, asWritten).grants).toEqual(own);
    expect(narrowGrants(own, { network: [] }, asWritten).grants).toEqual({ ...own, network: [] });
  });

  it.each([
    ['*', 'example.com', true],
    ['*', '*.example.com:443', true],
    ['*', 'localhost', false],
    ['*', '127.0.0.1', false],
    ['*', '10.0.0.1:80', false],
    ['*.localhost', 'a.localhost', false],
    ['*.example.com', '*', false],
    ['example.com', '*.example.com', false],
    ['127.0.0.1', '127.0.0.1:8080', true],
    ['127.0.0.1:8080', '127.0.0.1', false],
    ['Example.com', 'example.COM', true],
  ])('network %s over %s: %s', (wide, less, covers) => {
    const narrowed = narrowGrants({ ...none, network: [wide] }, { network: [less] });
    expect(narrowed.faults === undefined).toBe(covers);
  });

  it('reports every widening entry with its path', () => {
    const own: Grants = { ...none, tools: ['fs_*'], read: ['/a'], write: ['/w'], network: ['*.x.org:443'] };
    const less = {
      tools: ['fs_read', 'run_command'],
      read: ['/a/b', '/w/c', '/ab'],
      write: ['/a/b'],
      network: ['a.x.org:443', 'a.x.org', 'x.org:443'],
      auto_approve: ['fs_read'],
    };
    const { faults = [] } = narrowGrants(own, less, asWritten);
    expect(faults.map((fault) => fault.path)).toEqual([
      'grants.tools.1',
      'grants.read.2',
      'grants.write.0',
      'grants.network.1',
      'grants.network.2',
      'grants.auto_approve.0',
    ]);
    expect(faults[0]?.message).toBe(
      "'run_command' is more than the agent is granted (tools: 'fs_*'); a request may only narrow it",
    );
  });

  it('reports a malformed entry once', () => {
    const { faults } = narrowGrants({ ...none, read: ['/'] }, { read: ['a', '/x/../../etc'] });
    expect(faults).toEqual([
      { path: 'grants.read.0', message: "expected an absolute path, got 'a'" },
      { path: 'grants.read.1', message: "expected a plain path: use '/etc'" },
    ]);
  });

  it('does not widen grants through links', () => {
    const folder = realpathSync(mkdtempSync(join(tmpdir(), 'lathe-narrow-')));
    mkdirSync(join(folder, 'own/inside'), { recursive: true });
    symlinkSync('/etc', join(folder, 'own/out'));
    symlinkSync(join(folder, 'nowhere'), join(folder, 'own/dangling'));
    symlinkSync(join(folder, 'own/inside'), join(folder, 'own/link'));
    const own: Grants = { ...none, read: [join(folder, 'own')] };
    const at = (name: string) =>
      narrowGrants(own, { read: [join(folder, 'own', name)] }).faults === undefined;
    expect(['inside', 'link', 'not/yet', ''].map(at)).toEqual([true, true, true, true]);
    expect(['out', 'out/passwd', 'dangling', 'dangling/x'].map(at)).toEqual([false, false, false, false]);
    expect(resolveRealPath(join(folder, 'own/link/new'))).toBe(join(folder, 'own/inside/new'));
  });
});

describe('grants', () => {
  it.each([
    ['tools', 'fs read'],
    ['tools', 'fs_[rw]*'],
    ['auto_approve', '{a,b}'],
    ['read', 'relative'],
    ['read', '~/notes'],
    ['write', '/a/../b'],
    ['write', '/a//b'],
    ['write', '/a/./b'],
    ['write', '/a\0b'],
    ['network', 'https://example.com/x'],
    ['network', 'exa mple.com'],
    ['network', 'a.*.com'],
    ['network', '*example.com'],
    ['network', 'example.com:0'],
    ['network', 'example.com:99999'],
    ['network', 'user@example.com'],
    ['network', 'example.com/path'],
    ['network', '127.1'],
    ['network', '0x7f.0.0.1'],
    ['network', '*.0.0.1'],
    ['network', 'bücher.de'],
  ])('%s: %s is refused', (member, entry) => {
    const faults = findGrantFaults({ [member]: ['x', entry].slice(1) });
    expect(faults.map((fault) => fault.path)).toEqual([`grants.${member}.0`]);
  });

  it.each([
    ['tools', ['*', 'fs_*', 'mcp__files__read', 'a.b:c/d-e']],
    ['read', ['/', '/a', '/a/', '/a/..b']],
    ['network', ['*', 'localhost', 'Example.COM', '*.example.com:8443', '127.0.0.1:80', '[::1]:8080']],
  ])('%s: all of %j are accepted', (member, entries) =>
    expect(findGrantFaults({ [member]: entries })).toEqual([]),
  );

  it('suggest the correct form', () => {
    const message = (network: string) => findGrantFaults({ network: [network] })[0]?.message;
    expect(message('https://example.com/x')).toContain("use 'example.com'");
    expect(message('bücher.de')).toContain("as 'xn--bcher-kva.de'");
    expect(findGrantFaults({ read: ['/a/../b/'] })[0]?.message).toBe("expected a plain path: use '/b'");
  });

  it('have a maximum length', () => {
    const faults = findGrantFaults({ tools: Array.from({ length: 201 }, () => 'x') });
    expect(faults).toEqual([{ path: 'grants.tools', message: 'at most 200 entries, got 201' }]);
  });
});
