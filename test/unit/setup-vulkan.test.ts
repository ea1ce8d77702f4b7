import { describe, expect, it } from 'vitest';
import {
  alternativeTo,
  commandsOf,
  decide,
  explainApt,
  type Facts,
  parseOsRelease,
  parseTargets,
  type Step,
  undoOf,
} from '../../scripts/vulkan-plan.mjs';

/** A fresh Debian 12 without a GPU, seen as root: what `npm start` must cope with first of all. */
const bare: Facts = {
  platform: 'linux',
  adapter: undefined,
  dawn: 'Found no drivers!',
  gpus: [],
  loader: false,
  lavapipe: false,
  mesa: undefined,
  apt: true,
  system: { name: 'Debian GNU/Linux 12 (bookworm)', codename: 'bookworm' },
  targets: [
    { release: 'bookworm-security', uri: 'http://mirror.example/debian-security/' },
    { release: 'bookworm', uri: 'http://mirror.example/debian/' },
    { release: 'bookworm-updates', uri: 'http://mirror.example/debian/' },
  ],
  archiveKeys: true,
  driverFiles: undefined,
};
const ubuntu: Partial<Facts> = {
  system: { name: 'Ubuntu 24.04.3 LTS', codename: 'noble' },
  targets: [{ release: 'noble', uri: 'http://mirror.example/ubuntu/' }],
};
const complete: Partial<Facts> = { loader: true, lavapipe: true, mesa: '25.0.7-2~bpo12+1' };

const planFor = (facts: Partial<Facts>): Step => decide({ ...bare, ...facts });
const commandsFor = (facts: Partial<Facts>): string[] => commandsOf(planFor(facts));
const refusalFor = (facts: Partial<Facts>): string => {
  const step = planFor(facts);
  if (step.kind !== 'refuse') throw new Error(`not a refusal: ${JSON.stringify(step)}`);
  return step.message;
};

describe('nothing is done', () => {
  it.each<[string, Partial<Facts>]>([
    ['on macOS', { platform: 'darwin' }],
    ['on Windows', { platform: 'win32' }],
    ['where Dawn finds an adapter', { adapter: 'llvmpipe' }],
    ['where a GPU works', { adapter: 'NVIDIA H200', gpus: ['/dev/nvidia0'] }],
  ])('%s', (_, facts) => {
    expect(planFor(facts).kind).toBe('ready');
  });
});

describe('a machine without a GPU gets the software driver', () => {
  it("on Debian 12 from backports, from the machine's own mirror", () => {
    expect(commandsFor({})).toEqual([
      "echo 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://mirror.example/debian/ bookworm-backports main' > /etc/apt/sources.list.d/lathe-backports.list",
      'apt-get update',
      'apt-get install -y --no-install-recommends -t bookworm-backports libvulkan1 mesa-vulkan-drivers',
    ]);
  });

  it('on Debian 12 with backports already among its sources, which are left alone', () => {
    const targets = [
      ...bare.targets,
      { release: 'bookworm-backports', uri: 'http://mirror.example/debian/' },
    ];
    expect(commandsFor({ targets })).toEqual([
      'apt-get update',
      'apt-get install -y --no-install-recommends -t bookworm-backports libvulkan1 mesa-vulkan-drivers',
    ]);
  });

  it('on Debian 12 with the Mesa that Dawn refuses, instead of that one', () => {
    const facts = { loader: true, lavapipe: true, mesa: '22.3.6-1+deb12u1' };
    expect(commandsFor(facts).at(-1)).toContain('-t bookworm-backports');
  });

  it('on Debian 12 from the public mirror where the machine names none, or only a disc', () => {
    for (const targets of [[], [{ release: 'bookworm', uri: 'cdrom://[Debian 12]/' }]]) {
      expect(commandsFor({ targets, archiveKeys: false })[0]).toMatch(
        /^echo 'deb http:\/\/\S+\/debian\/ bookworm-backports main' > /,
      );
    }
  });

  it.each<[string, Partial<Facts>]>([
    ['Ubuntu', ubuntu],
    ['Debian 13', { system: { name: 'Debian GNU/Linux 13 (trixie)', codename: 'trixie' } }],
    ['a Debian without a code name', { system: { name: 'Debian GNU/Linux', codename: undefined } }],
  ])('on %s from its own packages', (_, facts) => {
    expect(commandsFor(facts)).toEqual([
      'apt-get update',
      'apt-get install -y --no-install-recommends libvulkan1 mesa-vulkan-drivers',
    ]);
  });

  it('also where only the loader or only the driver is missing', () => {
    expect(planFor({ ...ubuntu, ...complete, loader: false }).kind).toBe('install');
    expect(planFor({ ...ubuntu, ...complete, lavapipe: false }).kind).toBe('install');
  });

  it('by words only where there is no apt-get', () => {
    const message = refusalFor({ apt: false, system: { name: 'Fedora Linux 42', codename: '' } });
    expect(message).toContain('Fedora Linux 42 has no apt-get');
    expect(message).toContain('dnf install mesa-vulkan-drivers vulkan-loader');
  });
});

describe('a machine with a GPU that Dawn does not find', () => {
  it("gets Mesa's drivers for an AMD or Intel one", () => {
    expect(planFor({ ...ubuntu, gpus: ['/dev/dri/renderD128'] })).toMatchObject({
      kind: 'install',
      packages: ['libvulkan1', 'mesa-vulkan-drivers'],
    });
  });

  it('gets the loader alone for an NVIDIA one, without a foreign source', () => {
    expect(commandsFor({ gpus: ['/dev/nvidia0'] })).toEqual([
      'apt-get update',
      'apt-get install -y --no-install-recommends libvulkan1',
    ]);
  });

  it("gets a message that NVIDIA's driver lacks Vulkan, and how to go on without it", () => {
    const message = refusalFor({ gpus: ['/dev/nvidia0', '/dev/dri/renderD128'], loader: true });
    expect(message).toContain('/dev/nvidia0');
    expect(message).toContain('NVIDIA_DRIVER_CAPABILITIES');
    expect(message).toContain('-t bookworm-backports libvulkan1 mesa-vulkan-drivers');
  });
});

describe('a machine that has everything but no adapter', () => {
  it("gets Dawn's own message and no repeated instructions", () => {
    const message = refusalFor(complete);
    expect(message).toContain('Mesa 25.0.7-2~bpo12+1');
    expect(message).toContain('Dawn says: Found no drivers!');
  });

  it('gets a message about variables that hide the drivers', () => {
    expect(refusalFor({ ...complete, driverFiles: '/nope.json' })).toMatch(
      /restricts the drivers to \/nope\.json; unset/,
    );
  });

  it('counts the version behind an epoch', () => {
    expect(planFor({ ...complete, mesa: '1:24.2.8-1' }).kind).toBe('refuse');
  });
});

describe('an installation that fails', () => {
  const step = planFor({});
  if (step.kind !== 'install') throw new Error('the bare machine installs');

  it('takes the added source away again, and tries the public mirror once', () => {
    expect(undoOf(step)).toBe('rm -f /etc/apt/sources.list.d/lathe-backports.list');
    const other = alternativeTo(step);
    expect(other && commandsOf(other)[0]).not.toContain('mirror.example');
    expect(other && alternativeTo(other)).toBeUndefined();
  });

  it('leaves alone what it did not add', () => {
    const stock = planFor(ubuntu);
    if (stock.kind !== 'install') throw new Error('Ubuntu installs');
    expect(undoOf(stock)).toBeUndefined();
    expect(alternativeTo(stock)).toBeUndefined();
  });

  it.each([
    [
      'E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (apt-get)',
      /another package manager/,
    ],
    [
      "Err:1 http://x bookworm InRelease\n  Temporary failure resolving 'x'",
      /cannot reach the package servers/,
    ],
    ['E: dpkg was interrupted, you must manually run ...', /dpkg --configure -a/],
    ['E: Unable to locate package mesa-vulkan-drivers', /do not have these packages/],
    ["E: You don't have enough free space in /var/cache/apt/archives/.", /disk is full/],
    ['E: Release file for x is not live until tomorrow', /clock/],
    ['E: something new', /see its output above/],
  ])('is explained: %s', (output, reason) => {
    expect(explainApt(output)).toMatch(reason);
  });
});

describe('what the machine tells', () => {
  it('os-release, quoted or not', () => {
    expect(
      parseOsRelease('PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_CODENAME=bookworm\nID=debian\n'),
    ).toEqual({
      name: 'Debian GNU/Linux 12 (bookworm)',
      codename: 'bookworm',
    });
    expect(parseOsRelease('')).toEqual({ name: 'this system', codename: undefined });
  });

  it('the list of package sources', () => {
    expect(parseTargets('bookworm http://mirror.example/debian/\n\nnoble http://u.example/\n')).toEqual([
      { release: 'bookworm', uri: 'http://mirror.example/debian/' },
      { release: 'noble', uri: 'http://u.example/' },
    ]);
    expect(parseTargets('')).toEqual([]);
  });
});
