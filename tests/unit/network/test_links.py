from urllib.parse import quote

from harness.network import client_link, links_around, links_between, peer_link, proxy_name


def test_two_brokers_have_four_links_between_them() -> None:
    assert links_between(1, 2) == ["peer:1->2:int", "peer:1->2:ctl", "peer:2->1:int", "peer:2->1:ctl"]


def test_the_links_around_a_broker_are_those_to_all_its_peers() -> None:
    assert links_around(2, (1, 2, 3)) == links_between(2, 1) + links_between(2, 3)


def test_names_of_proxies_are_unique_and_need_no_escaping_in_a_url() -> None:
    links = [
        *links_around(1, (1, 2, 3)),
        client_link("w0", 1),
        client_link("w0", 11),
        peer_link(1, 11, "int"),
    ]
    names = [proxy_name(link) for link in links]
    assert len(set(names)) == len(links)
    assert [quote(name, safe="") for name in names] == names
