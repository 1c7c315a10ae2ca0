#!/usr/bin/env python3
"""Writes components.json: small tokenizers, each around one component or option that the real tokenizers of
../shared/golden do not have, with what Hugging Face's `tokenizers` makes of some texts.
usage: make_components.py OUT    (pip install tokenizers==0.23.* sentencepiece protobuf)"""
import base64
import io
import json
import sys
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

TEXTS = ["", " ", "  ", "Hello, world!", " Hello  wörld ", "a-b--c 12 345,6 x2y", "Été ÀÉÎ ｱｲｳ ﬁn ①②", "İstanbul ΑΣ ǅ",
         "line\nbreak\r\n\ttab", "日本語 text 한국어 ไทย", "e\u0301a\u0323\u0302 \u00a0nbsp\u2003em\u200bzero", "don't I'LL x's",
         "😀 a👩‍👩‍👧‍👦b 🇩🇪", "$9.99 <b>&x</b> “q” a_b", "--", "a--b", "▁x ▁▁y", "\x00\x01\x7f\u0085\ufffd", "½²٣ Ⅷ", "foo  bar   baz    ", "a" * 120]


def build(model, normalizer=None, pre=None, post=None, decoder=None, added=()):
    t = Tokenizer(model)
    if normalizer:
        t.normalizer = normalizer
    if pre:
        t.pre_tokenizer = pre
    if post:
        t.post_processor = post
    if decoder:
        t.decoder = decoder
    for token in added:
        (t.add_special_tokens if token.special else t.add_tokens)([token])
    return t


def decode(tokenizer, ids):
    """None where the reference panics (Strip on both sides of a token that is one space)."""
    try:
        return tokenizer.decode(ids, skip_special_tokens=False)
    except BaseException:
        return None


def case(name, tokenizer, texts=TEXTS, id_lists=()):
    items = [{"text": s, "ids": tokenizer.encode(s, add_special_tokens=False).ids, "ids_special": tokenizer.encode(s).ids} for s in texts]
    results = [{"ids": ids, "text": decode(tokenizer, ids)} for ids in list(id_lists) + [i["ids"] for i in items]]
    decoded = [r for r in results if r["text"] is not None]
    pair = tokenizer.encode("a b", "c").ids
    return {"name": name, "tokenizer": json.loads(tokenizer.to_str()), "items": items, "decoded": decoded, "pair": pair}


def words(name, normalizer=None, pre=None, texts=TEXTS):
    """Word level over exactly the words that the reference cuts, so that the ids show the cuts."""
    vocab = {"<unk>": 0}
    for text in texts:
        text = normalizer.normalize_str(text) if normalizer else text
        for piece, _ in pre.pre_tokenize_str(text) if pre else [(text, None)]:
            vocab.setdefault(piece, len(vocab))
    return case(name, build(models.WordLevel(vocab, unk_token="<unk>"), normalizer, pre), texts)


def charsmap():
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        for source, target in (("A", "a"), ("É", "e"), ("ﬁ", "fi"), ("①", "1"), ("e\u0301", "E"), ("\u00a0", " "), ("ｱ", "ア")):
            rules.write(" ".join(f"{ord(c):X}" for c in source) + "\t" + " ".join(f"{ord(c):X}" for c in target) + "\n")
        rules.flush()
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["hello world a b c"] * 20), model_writer=model, vocab_size=20,
                                                 model_type="char", normalization_rule_tsv=rules.name, minloglevel=2)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    return proto.normalizer_spec.precompiled_charsmap


P, N, D = pre_tokenizers, normalizers, decoders
BYTES = [f"<0x{b:02X}>" for b in range(256)]


def pre_cases():
    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        for invert in (False, True):
            yield words(f"split-regex-{behavior}-{invert}", pre=P.Split(Regex(r"\s|-|[^\W\d]{2}"), behavior, invert))
        yield words(f"split-string-{behavior}", pre=P.Split("-", behavior))
        yield words(f"punctuation-{behavior}", pre=P.Punctuation(behavior))
    yield words("split-repeated-interval", pre=P.Split(Regex(r"\p{N}{1,2}+|\h{2}|\w+"), "isolated"))
    yield words("split-no-scanner", pre=P.Split(Regex(r"\p{L}+|\p{N}{1,3}|[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"), "isolated"))
    yield words("whitespace", pre=P.Whitespace())
    yield words("whitespace-split", pre=P.WhitespaceSplit())
    yield words("bert", pre=P.BertPreTokenizer())
    yield words("delimiter", pre=P.CharDelimiterSplit("-"))
    yield words("digits", pre=P.Digits(individual_digits=False))
    yield words("digits-individual", pre=P.Digits(individual_digits=True))
    for scheme in ("always", "first", "never"):
        for split in (True, False):
            yield words(f"metaspace-{scheme}-{split}", pre=P.Metaspace("▁", scheme, split))
    yield words("sequence", pre=P.Sequence([P.WhitespaceSplit(), P.Metaspace("▁", "first"), P.Punctuation()]))
    yield words("byte-level-prefix", pre=P.ByteLevel(add_prefix_space=True, use_regex=True))
    yield words("byte-level-middle", pre=P.Sequence([P.ByteLevel(add_prefix_space=False, use_regex=False), P.Digits(True)]))


def normalizer_cases():
    for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt"):
        yield words(name, normalizer=getattr(N, name)())
    yield words("nfd-strip-accents", normalizer=N.Sequence([N.NFD(), N.StripAccents(), N.Lowercase()]))
    for left in (True, False):
        yield words(f"strip-{left}", normalizer=N.Strip(left, not left))
    yield words("strip-both", normalizer=N.Strip())
    yield words("replace-regex", normalizer=N.Replace(Regex(r"\s+|\d"), "_"))
    yield words("replace-string", normalizer=N.Replace("--", "—"))
    yield words("prepend", normalizer=N.Prepend("▁"))
    yield words("byte-level-normalizer", normalizer=N.ByteLevel())
    for clean, cjk, accents, lower in ((True, True, None, True), (False, False, True, False), (True, False, False, True), (False, True, None, False)):
        yield words(f"bert-{clean}-{cjk}-{accents}-{lower}", normalizer=N.BertNormalizer(clean, cjk, accents, lower))
    yield words("precompiled", normalizer=N.Precompiled(charsmap()), texts=TEXTS + ["AÉﬁ", "e\u0301", "A\u0301", "①A", "ｱﾞ"])


def model_cases():
    pieces = [("<unk>", 0.0), ("▁", -2.0), ("a", -3.0), ("b", -3.5), ("ab", -4.0), ("aba", -5.5), ("▁a", -3.2), ("c", -6.0), ("bc", -6.1), ("日", -7.0), ("aa", -5.0)]
    texts = TEXTS + ["abab abcabc", "abaabaaba", "xyzab", "aaaaa日語"]
    mark = P.Metaspace("▁", "always")
    yield case("unigram", build(models.Unigram(pieces, 0, False), pre=mark, decoder=D.Metaspace()), texts)
    yield case("unigram-bytes", build(models.Unigram(pieces + [(b, -9.0) for b in BYTES], 0, True), pre=mark, decoder=D.Sequence([D.ByteFallback(), D.Metaspace()])), texts)
    vocab = {t: i for i, t in enumerate(["<unk>", "a", "b", "c", "ab", "abc", "bc", "▁", "1", "-", "aa", "aaaa"])}
    merges = [("a", "b"), ("b", "c"), ("ab", "c"), ("a", "a"), ("aa", "aa")]
    for fuse in (False, True):
        yield case(f"bpe-unk-fuse-{fuse}", build(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=fuse)), texts)
    yield case("bpe-no-unk", build(models.BPE(vocab, merges)), texts)
    with_bytes = {**vocab, **{b: len(vocab) + i for i, b in enumerate(BYTES)}}
    yield case("bpe-bytes", build(models.BPE(with_bytes, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True), decoder=D.Sequence([D.ByteFallback(), D.Fuse()])), texts)
    yield case("bpe-some-bytes", build(models.BPE({**vocab, "<0x78>": 12}, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)), texts)
    yield case("bpe-ignore-merges", build(models.BPE({**vocab, "cab": 12}, merges, ignore_merges=True), pre=P.Whitespace()), texts + ["cab cabab"])
    affixed = {t: i for i, t in enumerate(["<unk>", "a", "##b", "##c</w>", "a</w>", "##b</w>", "ab</w>", "##bc</w>", "abc</w>", "##a", "##a</w>", "ab"])}
    affix_merges = [("a", "##b</w>"), ("##b", "##c</w>"), ("a", "##bc</w>"), ("a", "##b")]
    yield case("bpe-affixes", build(models.BPE(affixed, affix_merges, unk_token="<unk>", continuing_subword_prefix="##", end_of_word_suffix="</w>"), pre=P.Whitespace(), decoder=D.BPEDecoder()), ["ab abc a abab abx", "b c a"])
    pieces = {t: i for i, t in enumerate(["[UNK]", "a", "ab", "##b", "##a", "##ab", "日", "##語", ",", "do", "not", "don", "'", "t", "n't", "x", "##--"])}
    yield case("wordpiece", build(models.WordPiece(pieces, unk_token="[UNK]", max_input_chars_per_word=8), pre=P.BertPreTokenizer(), decoder=D.WordPiece()), texts + ["abab, ab . don't do not", "日語", "aaaaaaaaa", "aaaaaaaa"])


def decoder_cases():
    tokens = ["<unk>", "▁a", "▁▁b", "c", "##d", ".", "n't", "e</w>", "</w>f", "\u0120g", "\u00c3", "\u00a9", "é", " ", "  h ", "<0xE2>", "<0x82>", "<0xAC>", "<0xFF>", "<0x41>", "<0xzz>", "-", "do", "not"]
    vocab = {t: i for i, t in enumerate(tokens)}
    lists = [[i] for i in range(len(tokens))] + [list(range(len(tokens))), list(range(len(tokens) - 1, 0, -1)), [15, 16, 17, 1], [15, 16, 1, 17], [19, 18, 19], [13, 14, 13], [2, 2], [22, 23, 6, 5], [3, 4, 5, 6], [7, 7, 8]]
    chains = {"none": None, "byte-level": D.ByteLevel(), "fallback": D.ByteFallback(), "metaspace": D.Metaspace(), "metaspace-never": D.Metaspace("▁", "never"), "wordpiece": D.WordPiece(),
              "wordpiece-raw": D.WordPiece("##", False), "bpe": D.BPEDecoder(), "replace-regex": D.Replace(Regex("[a-c]+"), "<>"), "strip": D.Strip(" ", 1, 1), "fuse": D.Fuse(),
              "llama": D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)]), "fused-strip": D.Sequence([D.Fuse(), D.Strip(" ", 2, 2)]), "fallback-metaspace": D.Sequence([D.ByteFallback(), D.Metaspace()])}
    for name, decoder in chains.items():
        yield case(f"decoder-{name}", build(models.WordLevel(vocab, "<unk>"), decoder=decoder), [], lists)


def added_cases():
    vocab = {t: i for i, t in enumerate(["<unk>", "hello", "world", "mask", "x", "é"])}
    kinds = {"plain": {}, "single-word": {"single_word": True}, "lstrip": {"lstrip": True}, "rstrip": {"rstrip": True}, "both": {"lstrip": True, "rstrip": True}, "normalized": {"normalized": True}}
    texts = ["hello <M> world", "hello<M>world", "  <M>  <M>  ", "<M><M>", "a<M>b <m> <M>.", "<M>\n\u00a0x", "MASK mask Mask", "hello <M", "É<M>É", "<M>s <MM> <MM>x", " hello  <M>\tworld"]
    for name, flags in kinds.items():
        for special in (False, True):
            added = [AddedToken("<M>", special=special, **{"normalized": False, **flags}), AddedToken("<MM>", special=special, normalized=False), AddedToken("MASK", special=False, **{"normalized": True, **flags})]
            for normalizer in (None, N.Lowercase()):
                t = build(models.WordLevel(vocab, "<unk>"), normalizer, P.Whitespace(), added=added)
                yield case(f"added-{name}-{special}-{'lower' if normalizer else 'raw'}", t, texts)


def post_cases():
    vocab = {t: i for i, t in enumerate(["<unk>", "a", "b", "c", "<s>", "</s>"])}
    posts = {"bert": processors.BertProcessing(("</s>", 5), ("<s>", 4)), "roberta": processors.RobertaProcessing(("</s>", 5), ("<s>", 4)),
             "template": processors.TemplateProcessing("<s> $0 </s> <s>", "$B <s> $A", [("<s>", 4), ("</s>", 5)]),
             "sequence": processors.Sequence([processors.ByteLevel(), processors.TemplateProcessing("<s> $A", "<s> $A $B", [("<s>", 4)])])}
    for name, post in posts.items():
        yield case(f"post-{name}", build(models.WordLevel(vocab, "<unk>"), pre=P.Whitespace(), post=post), ["a b c", "", "c"])


cases = [c for make in (pre_cases, normalizer_cases, model_cases, decoder_cases, added_cases, post_cases) for c in make()]
json.dump(cases, open(sys.argv[1], "w"), ensure_ascii=True, separators=(",", ":"))
print(len(cases), "cases")
