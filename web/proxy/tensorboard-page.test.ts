import { expect, test } from 'vitest';
import { relativeLocation } from './proxied-answer.ts';
import { pathToRoot, withInHead, withRelativeUrls, withScripts } from './tensorboard-page.ts';

test('the script is the first element of the head, wherever the head begins', () => {
  const script = '<script></script>';
  expect(withInHead('<!doctype html><html><head><meta></head>', script, '')).toBe(`<!doctype html><html><head>${script}<meta></head>`);
  expect(withInHead('<HTML lang="en"><body>', script, '')).toBe(`<HTML lang="en">${script}<body>`);
  expect(withInHead('<!doctype html><p>', script, '')).toBe(`<!doctype html>${script}<p>`);
  expect(withInHead('<header>', script, '')).toBe(`${script}<header>`);
});

test('links from the root become relative, other links stay unchanged', () => {
  expect(withRelativeUrls('url(/font-roboto/x.woff2) url("/a") url( \'/b\')', '')).toBe(
    'url(./font-roboto/x.woff2) url("./a") url( \'./b\')',
  );
  expect(withRelativeUrls('url(/a)', '../../')).toBe('url(../../a)');
  expect(withRelativeUrls('url(//elsewhere/a) url(data:x) url(a)', '')).toBe('url(//elsewhere/a) url(data:x) url(a)');
  expect(['/', '/a', '/a/', '/a/b/c?d=/e/f'].map(pathToRoot)).toEqual(['', '', '../', '../../']);
});

test('the policy permits our scripts, and only this site may frame the page', () => {
  const own = "default-src 'self';frame-ancestors *;script-src 'self' 'unsafe-eval';connect-src 'none'; img-src data:";
  expect(withScripts(own, ["'sha256-x'"])).toBe(
    "default-src 'self'; frame-ancestors 'self'; script-src 'self' 'unsafe-eval' 'sha256-x'; connect-src 'self'; img-src data:",
  );
  expect(withScripts("default-src 'none'", ["'sha256-x'"])).toBe(
    "default-src 'none'; script-src 'self' 'sha256-x'; connect-src 'self'; frame-ancestors 'self'",
  );
  expect(withScripts("img-src 'self', script-src 'self'", ["'sha256-x'"])).toBe(
    "img-src 'self'; frame-ancestors 'self', script-src 'self' 'sha256-x'; frame-ancestors 'self'",
  );
  expect(withScripts(undefined, ["'sha256-x'"])).toBe("frame-ancestors 'self'");
});

test.each([
  ['/data/x?y#z', '/a/b', '../data/x?y#z'],
  ['http://tensorboard/', '/a', './'],
  ['c', '/a/b', '../a/c'],
  ['x:y', '/', null],
  ['./x:y', '/', './x:y'],
  ['https://evil.example/', '/a', null],
  ['//evil.example/a', '/a', null],
  ['/\\evil.example', '/a', null],
  ['http://tensorboard//evil.example/', '/a', null],
  ['javascript:alert(1)', '/a', null],
])('a redirect to %s from %s becomes %s', (location, path, expected) => {
  expect(relativeLocation(location, path, pathToRoot(path))).toBe(expected);
});
