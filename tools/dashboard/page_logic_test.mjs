// The page's modules that know of no browser: who waits for whom, and what is remembered.
import assert from "node:assert/strict";

import {addChanges, changesOf, pictureOf, remember, withTimesOfDay} from "./page/past.js";
import {Peaks, Stillness, partsOf, pending, quantile, ringKey, unseen, waitsFor} from "./page/rings.js";
import {duration, visible} from "./page/text.js";

const ring = (figures = {}) => ({
  device: "nic0", event_id: 1, label: "", kernel: "echo", entries: 64, doorbell: 10, launched: 10,
  completed: 10, consumed: 10, peak: 0, counts: {rung: 10, done: 10, failed: 0, aborted: 0},
  rate: 5, p50_ns: 1, p99_ns: 2, life: null, ...figures,
});
const device = (figures = {}) =>
  ({name: "nic0", kind: "nic", pid: 7, state: "running", silent_ns: 0, ...figures});
const picture = (figures = {}) => ({
  testbed: "t", time_ns: 5e9, gpud: {state: "live", note: ""}, struck: 0, rings: [ring()],
  totals: {policy: "fifo", tracing: false, events: {rung: 10, done: 9, failed: 1, aborted: 0}},
  devices: [device()], processes: [], ...figures,
});

const tests = {
  "each figure that lags says who is waited for"() {
    assert.equal(waitsFor(ring(), 0).who, "");
    assert.deepEqual(waitsFor(ring({doorbell: 13}), 0),
                     {who: "gpud", what: "rung, and gpud has not looked", events: 3});
    assert.equal(waitsFor(ring({completed: 8, consumed: 8}), 0).who, "GPU");
    assert.equal(waitsFor(ring({consumed: 8}), 0).who, "device");
    assert.equal(waitsFor(ring({doorbell: 13}), 6e8).who, "device");
    assert.equal(waitsFor(ring({doorbell: 13}), 4e8).who, "gpud");
  },
  "a doorbell that has begun anew at 2^32 is not taken for billions of events"() {
    assert.equal(unseen(ring({doorbell: 2, launched: 4294967295})), 3);
    assert.equal(unseen(ring({doorbell: 4294967295, launched: 4294967295})), 0);
    assert.equal(unseen(ring({doorbell: 1, launched: 2 * 4294967296 + 1})), 0);
  },
  "a ring is still since its figures moved last"() {
    const still = new Stillness();
    still.look([ring()], 1e9);
    assert.equal(still.look([ring()], 3e9).get(ringKey(ring())), 2e9);
    assert.equal(still.look([ring({consumed: 9})], 4e9).get(ringKey(ring())), 0);
  },
  "a peak is remembered for fifteen seconds"() {
    const peaks = new Peaks();
    peaks.look([ring({peak: 64})], 1e9);
    assert.equal(peaks.look([ring({peak: 1})], 15e9).get(ringKey(ring())), 64);
    assert.equal(peaks.look([ring({peak: 1})], 16e9).get(ringKey(ring())), 1);
  },
  "a life's parts leave out stages that are not known"() {
    const life = {sequence: 1, rung_ns: 100, seen_ns: 0, queued_ns: 150, dispatched_ns: 140, finished_ns: 200};
    assert.deepEqual(partsOf(life), [["queued", 0, 50], ["finished", 50, 50]]);
    assert.equal(quantile([3, 1, 2], 0.5), 2);
    assert.equal(quantile([3, 1, 2], 0.99), 3);
  },
  "an earlier picture has the rings and totals of then"() {
    const before = remember(picture(), new Map());
    const past = remember(picture({time_ns: 6e9, rings: [ring({doorbell: 23, launched: 20, completed: 18, consumed: 17, peak: 9})]}),
                          new Map());
    const shown = pictureOf(picture({time_ns: 99e9}), past, before);
    assert.equal(shown.time_ns, 6e9);
    assert.equal(shown.rings[0].consumed, 17);
    assert.equal(shown.rings[0].peak, 9);
    assert.equal(shown.rings[0].rate, 8);
    assert.equal(pending(shown.rings[0]), 5);
    assert.equal(shown.rings[0].counts.failed, null);
    assert.equal(pictureOf(picture({rings: []}), past, before).rings.length, 0);
    // gpud was started anew between the two: there is no rate.
    const anew = {...before, time_ns: 7e9};
    assert.equal(pictureOf(picture(), anew, past).rings[0].rate, null);
  },
  "changes are told once"() {
    assert.deepEqual(changesOf(picture(), picture()), []);
    const texts = changesOf(picture(), picture({
      gpud: {state: "gone"}, struck: 2, devices: [device({name: "nic1"})],
    })).map(({text}) => text);
    assert.deepEqual(texts, ["gpud is gone", "device nic1 came (pid 7)", "device nic0 went",
                             "faults struck 2 times"]);
    assert.deepEqual(changesOf(picture(), picture({devices: [device({silent_ns: 6e8})]})).map(({text}) => text),
                     ["device nic0 is silent"]);
    assert.deepEqual(changesOf(picture(), picture({devices: [device({pid: 8})]})).map(({text}) => text),
                     ["device nic0 came anew (pid 8)"]);
    assert.deepEqual(addChanges([], null, picture()), []);
  },
  "strikes have times of day, by the last picture of a living gpud"() {
    const strikes = [{time_ns: 3e9, fault: "dies", pid: 1, passage: 1}];
    const gone = {...picture({time_ns: 900e9, gpud: {state: "gone"}}), monotonic_ns: 4e9, strikes};
    assert.equal(withTimesOfDay(gone, null).picture.strikes[0].time_ns, null);
    const live = withTimesOfDay({...picture({time_ns: 504e9}), monotonic_ns: 4e9, strikes}, null);
    assert.equal(live.picture.strikes[0].time_ns, 503e9);
    assert.equal(withTimesOfDay(gone, live.offset).picture.strikes[0].time_ns, 503e9);
  },
  "hostile text is shown as codes"() {
    assert.equal(visible("a\u001b[31m\u202eb\n<b>"), "a\\u001b[31m\\u202eb\\u000a<b>");
    assert.equal(duration(null), "-");
    assert.equal(duration(1500), "1.50 us");
  },
};

for (const [name, test] of Object.entries(tests)) {
  test();
  console.log("ok", name);
}
