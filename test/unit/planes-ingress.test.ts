import { describe, expect, test } from 'vitest';
import { hostGuard, isLoopback } from '../../src/http/host-guard.ts';

const guard = hostGuard('127.0.0.1', ['My.Box']);
const enter = (hosts: readonly string[], target = '/') =>
  guard(
    hosts.flatMap((host) => ['HOST', host]),
    target,
  )?.status;

describe('the Host-header guard of a loopback bind', () => {
  test.each([
    'localhost',
    'LOCALHOST:8080',
    '127.0.0.1',
    '127.0.0.1:1',
    '[::1]',
    '[::1]:8080',
    'my.box',
    'MY.BOX:80',
    // From a container of this machine: Docker Desktop, Podman.
    'host.docker.internal:8080',
    'HOST.docker.internal',
    'host.containers.internal:8080',
  ])('%s enters', (host) => expect(enter([host])).toBeUndefined());

  test.each([
    'evil.com',
    'localhost.evil.com',
    'evil.com:8080',
    'localhost.',
    '127.0.0.1.',
    '127.0.0.1.nip.io',
    '127.0.0.2',
    '0.0.0.0',
    '2130706433',
    '[::ffff:127.0.0.1]',
    '[::1',
    '::1',
    '',
    ' ',
    'localhost:port',
    'localhost:1:2',
    'evil.com@localhost',
    'localhost@evil.com',
    'localhost/evil.com',
    'localhost, evil.com',
    'localhost:123456',
    'other.docker.internal',
    'host.docker.internal.evil.com',
    'internal',
  ])('%j is refused with 403', (host) => expect(enter([host])).toBe(403));

  test('none or several Host headers are refused with 400', () => {
    expect(enter([])).toBe(400);
    expect(enter(['localhost', 'localhost'])).toBe(400);
    expect(enter(['localhost', 'evil.com'])).toBe(400);
  });

  test('the authority of an absolute target is checked too', () => {
    expect(enter(['localhost'], 'http://evil.com/v1/models')).toBe(403);
    expect(enter(['localhost'], 'http://localhost:8080/v1/models')).toBeUndefined();
  });
});

describe('beyond loopback', () => {
  const machine = () => ['My-Machine', '10.0.0.5', 'fd00::2'];
  const refused = (host: string, bound = '0.0.0.0') =>
    hostGuard(bound, ['my.box'], machine)(['Host', host], '/')?.status;

  test('the current names of the machine are accepted too', () => {
    for (const host of [
      'my-machine',
      'MY-MACHINE:8080',
      '10.0.0.5',
      '10.0.0.5:1',
      '[fd00::2]:8080',
      'my.box',
    ])
      for (const bound of ['0.0.0.0', '::', '10.0.0.5']) expect(refused(host, bound)).toBeUndefined();
    for (const host of [
      '10.0.0.6',
      '[fd00::3]',
      'fd00::2',
      'evil.com',
      'my-machine.evil.com',
      '10.0.0.5.nip.io',
    ])
      expect(refused(host)).toBe(403);
  });

  test('but not where the host listens on loopback', () => {
    for (const bound of ['127.0.0.1', '::1', 'localhost'])
      for (const host of ['my-machine', '10.0.0.5']) expect(refused(host, bound)).toBe(403);
  });
});

test('loopback is 127.0.0.0/8, ::1 and localhost', () => {
  for (const host of ['127.0.0.1', '127.9.9.9', '::1', 'localhost']) expect(isLoopback(host)).toBe(true);
  for (const host of ['0.0.0.0', '::', '10.0.0.1', '127.evil.com', 'localhost.evil.com', ''])
    expect(isLoopback(host)).toBe(false);
});
